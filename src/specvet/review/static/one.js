// The page of one object: the viewer of the review page without a server. All it shows lies in the page itself.

import { markStep, showAgent, showDecisions } from "./agent.js";
import { wear } from "./colours.js";
import { byId, element, fill } from "./dom.js";
import { listen } from "./keys.js";
import { linksOf } from "./panels.js";
import { decodeSpectrum } from "./payload.js";
import { showStar } from "./star.js";
import { Viewer } from "./viewer.js";

const object = JSON.parse(byId("object").textContent);
const bytes = Uint8Array.from(atob(object.spectrum), (c) => c.charCodeAt(0));
const spectrum = decodeSpectrum(bytes.buffer);
const viewer = new Viewer({ window: (i) => markStep(i) });

function show(key) {
  const told = object.tasks.find((t) => t.key === key);
  const entry = { item: spectrum.item, spectrum, evidence: told.evidence, hidden: false, problem: null };
  byId("question").textContent = told.question;
  viewer.show(entry, told, showAgent(entry, told, { go: (i) => viewer.go(i) }));
  showStar(told.match);
  showDecisions({ votes: told.votes, merged: told.merged }, null);
}

fill(byId("task"), object.tasks.map((t) => element("option", { value: t.key }, t.label)));
byId("task").addEventListener("change", (event) => {
  event.target.blur();
  show(event.target.value);
});
byId("open-links").addEventListener("click", () => {
  byId("links").hidden = !byId("links").hidden;
});
if (spectrum.ra !== null && spectrum.dec !== null) {
  fill(byId("links"), linksOf(spectrum.ra, spectrum.dec).map(([name, href]) =>
    element("li", {}, element("a", { href, target: "_blank", rel: "noopener noreferrer" }, name))));
} else {
  byId("open-links").hidden = true;
}
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => viewer.redraw());
let worn = "auto";
byId("theme").addEventListener("click", () => {
  worn = { auto: dark.matches ? "light" : "dark", light: "dark", dark: "light" }[worn];
  wear(worn);
  viewer.redraw();
});
listen({
  earlierWindow: () => viewer.step(-1), laterWindow: () => viewer.step(1), reset: () => viewer.reset(),
  left: () => viewer.plot.pan(-0.2), right: () => viewer.plot.pan(0.2), closer: () => viewer.plot.scale(0.7), wider: () => viewer.plot.scale(1 / 0.7),
  smoother: () => viewer.smooth(1), sharper: () => viewer.smooth(-1), frame: () => viewer.turn(),
  velocity: () => byId("velocity").focus(), redshift: () => byId("z-slider").focus(),
  lines: () => viewer.toggle("lines"), band: () => viewer.toggle("band"), mask: () => viewer.toggle("mask"), clip: () => viewer.clip(),
});
show(object.task);
