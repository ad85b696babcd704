// What `specvet match` found of the star: Gaia's numbers, where it lies in the colour-magnitude diagram, who knows it.

import { chip } from "./agent.js";
import { byId, element, fill, number, valueAndError } from "./dom.js";

/** Fills the panel; `match` as docs/review.md says, null where nothing was matched. */
export function showStar(match) {
  const place = byId("star");
  if (!match) {
    fill(place);
    return;
  }
  if (match.trouble) {
    fill(place, element("p", { class: "contrary" }, match.trouble));
    return;
  }
  const { gaia } = match;
  fill(
    place,
    element("h3", {}, "The star"),
    match.known_as ? knownAs(match) : null,
    match.with_gaia ? element("p", { class: "said" }, "With Gaia ", chip(match.with_gaia.answer_with_gaia), element("span", {}, match.with_gaia.why)) : null,
    gaia ? numbers(gaia) : element("p", {}, match.asked.includes("gaia") ? "No Gaia source was found here." : "Gaia was not asked."),
    drawing(match.cmd),
    match.notes.map((note) => element("p", { class: "measured" }, note)),
  );
}

/** What catalogues call it; `new` says which do not know it. */
function knownAs(match) {
  if (match.known_as !== "new") return element("p", {}, "Known as ", element("b", {}, match.known_as));
  const asked = match.asked.filter((name) => name !== "gaia");
  return element("p", {}, element("b", {}, "New"), `: not in ${asked.join(", ")}`);
}

function numbers(gaia) {
  const known = (value) => value !== null && value !== undefined;
  const magnitude = known(gaia.m_g) ? valueAndError(gaia.m_g, gaia.error) : known(gaia.limit) ? `brighter than ${number(gaia.limit, 3)}` : null;
  const rows = [
    ["Gaia DR3", gaia.source_id],
    ["G", known(gaia.g) ? gaia.g.toFixed(2) : null],
    ["BP−RP", known(gaia.bp_rp) ? gaia.bp_rp.toFixed(2).replace("-", "−") : null],
    ["parallax", known(gaia.parallax) ? `${valueAndError(gaia.parallax, gaia.parallax_error)} mas` : null],
    ["M_G", magnitude],
    ["RUWE", known(gaia.ruwe) ? `${gaia.ruwe.toFixed(2)}${gaia.good_astrometry === false ? ", not trusted" : ""}` : null],
    ["proper motion", known(gaia.pmra) && known(gaia.pmdec) ? `${number(Math.hypot(gaia.pmra, gaia.pmdec))} mas/yr` : null],
    ["separation", known(gaia.separation) ? `${number(gaia.separation, 2)}″` : null],
  ];
  return element("dl", { class: "meta gaia" }, rows.filter(([, value]) => known(value)).map(([label, value]) => [element("dt", {}, label), element("dd", label === "Gaia DR3" ? { class: "wide" } : {}, value)]));
}

/** The diagram comes as SVG from this page's own server, which escapes what it did not write. */
function drawing(svg) {
  if (!svg) return null;
  const made = new DOMParser().parseFromString(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '), "image/svg+xml").documentElement;
  return made.nodeName === "svg" ? document.importNode(made, true) : null;
}
