// Dialogs that only tell: the keys, links for a position, all that the file says.

import { byId, element, fill, number } from "./dom.js";
import { KEYS } from "./keys.js";

const close = (dialog) => element("div", { class: "closing" }, element("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close"));

export function openHelp(versions) {
  const dialog = byId("help");
  if (dialog.open) return dialog.close();
  fill(
    dialog,
    element("h2", { id: "help-title" }, "Keys"),
    element("div", { class: "columns" }, KEYS.map(([group, rows]) => element("section", {}, element("h3", {}, group),
      element("dl", { class: "keys" }, rows.map(([keys, what]) => [element("dt", {}, element("kbd", {}, keys)), element("dd", {}, what)]))))),
    element("p", {}, "Drag, turn the wheel or part two fingers to zoom; Shift-drag, the right button or one finger moves; double-click shows all. ",
      "A verdict saves, then shows the next spectrum. Keys mean nothing while you type; Esc leaves a field. ",
      "Names of lines: red in emission, blue in absorption, purple either way, or a band."),
    element("p", { class: "measured" }, Object.entries(versions ?? {}).map(([name, version]) => `${name} ${version}`).join(" · ")),
    close(dialog),
  );
  return dialog.showModal();
}

/** Who has decided how much of a task, and how far people agree. */
export function showPeople(found, label) {
  const head = ["name", "votes", "yes", "no", "unsure", "flagged"];
  const agreed = found.pairs.map((pair) => `${pair.a} and ${pair.b}: ${pair.n} in common, ${number(100 * pair.agree, 3)} % alike, κ ${number(pair.kappa, 2)}`);
  const many = found.alpha === null || found.alpha === undefined ? [] : [`Krippendorff's α ${number(found.alpha, 2)} (${number(found.alpha_low, 2)} to ${number(found.alpha_high, 2)}), ${found.conflicts} in conflict, ${found.settled} settled`];
  fill(
    byId("people"),
    element("h3", {}, `Decisions: ${label}`),
    element("table", {}, element("thead", {}, element("tr", {}, head.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, found.reviewers.map((r) => element("tr", {}, [r.name, r.votes, r.YES, r.NO, r.UNSURE, r.flagged].map((cell) => element("td", {}, String(cell))))))),
    [...agreed, ...many].map((text) => element("p", {}, text)),
  );
}

/** What the task asks, and what counts. */
export function openGuide(task) {
  const dialog = byId("more");
  const list = (title, lines) => (lines?.length ? [element("h3", {}, title), element("ul", { class: "plain" }, lines.map((line) => element("li", {}, line)))] : null);
  fill(
    dialog,
    element("h2", { id: "more-title" }, task.label),
    element("div", { class: "scroll", tabIndex: 0 },
      element("p", {}, task.question),
      list("Counts", task.include), list("Does not count", task.exclude),
      task.guidance ? [element("h3", {}, "How to tell"), element("p", { class: "guidance" }, task.guidance)] : null,
      list("Where to look", task.windows.map((w) => `${w.name}, ${w.low}–${w.high} Å${w.why ? `: ${w.why}` : ""}`))),
    close(dialog),
  );
  dialog.showModal();
}

/** Pages about a position, in degrees. They are opened by a click alone: this page asks the network for nothing. */
export function linksOf(ra, dec) {
  const place = `${ra} ${dec < 0 ? "" : "+"}${dec}`;
  const at = encodeURIComponent(place);
  return [
    ["SIMBAD", `https://simbad.cds.unistra.fr/simbad/sim-coo?Coord=${at}&CooFrame=ICRS&Radius=10&Radius.unit=arcsec`],
    ["Aladin Lite", `https://aladin.cds.unistra.fr/AladinLite/?target=${at}&fov=0.05`],
    ["Legacy Survey viewer", `https://www.legacysurvey.org/viewer?ra=${ra}&dec=${dec}&layer=ls-dr10&zoom=15&mark=${ra},${dec}`],
    ["Gaia DR3 (VizieR)", `https://vizier.cds.unistra.fr/viz-bin/VizieR-4?-source=I/355/gaiadr3&-c=${at}&-c.rs=5`],
  ];
}

export function openLinks(spectrum) {
  const dialog = byId("links");
  const known = spectrum && Number.isFinite(spectrum.ra) && Number.isFinite(spectrum.dec);
  fill(
    dialog,
    element("h2", { id: "links-title" }, known ? `RA ${spectrum.ra.toFixed(5)}, Dec ${spectrum.dec.toFixed(5)}` : "Links"),
    known
      ? element("ul", { class: "links-list" }, linksOf(spectrum.ra, spectrum.dec).map(([name, href]) =>
        element("li", {}, element("a", { href, target: "_blank", rel: "noopener noreferrer" }, name))))
      : element("p", {}, "The file and the list state no position."),
    close(dialog),
  );
  dialog.showModal();
}

export function openMore(spectrum) {
  const dialog = byId("more");
  if (!spectrum) return;
  const rows = [
    ["file", spectrum.file], ["row", spectrum.row], ["id", spectrum.id], ["survey", spectrum.survey], ["pixels", spectrum.n],
    ["S/N a pixel", number(spectrum.snr)], ["medium", spectrum.medium], ["frame as released", spectrum.frame], ["flux unit", spectrum.unit],
    ["redshift", [spectrum.z, spectrum.z_source, spectrum.z_warning].filter((x) => x !== null && x !== undefined && x !== "").join(", ")],
    ["arm joins", (spectrum.joins ?? []).map((join) => `${join[0].toFixed(0)}–${join[1].toFixed(0)} Å ${join[2] ?? ""}`).join("; ")],
    ["masked", masks(spectrum)], ["warnings", (spectrum.warnings ?? []).join("; ")], ...(spectrum.meta ?? []),
  ];
  fill(
    dialog,
    element("h2", { id: "more-title" }, "What the file says"),
    element("div", { class: "scroll", tabIndex: 0 }, element("dl", { class: "meta" },
      rows.filter(([, value]) => value !== "" && value !== null && value !== undefined).map(([label, value]) => [element("dt", {}, label), element("dd", {}, String(value))]))),
    close(dialog),
  );
  dialog.showModal();
}

function masks(spectrum) {
  const counts = new Map();
  for (const [first, last, reason] of spectrum.masked ?? []) counts.set(reason, (counts.get(reason) ?? 0) + last - first);
  return Array.from(counts, ([reason, n]) => `${n} pixels ${reason}`).join("; ");
}
