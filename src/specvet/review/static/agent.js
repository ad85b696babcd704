// What the agent said and where it looked, beside what was measured there; and what people decided.

import { byId, element, fill, number, valueAndError } from "./dom.js";

const STATES = { supported: "supported", contradicted: "contradicted", not_measurable: "not measurable" };

/**
 * Fills the panel. `told.go(i)` is called when the window of step i is chosen.
 * @returns windows as [[low, high], …] in the frame of the agent, with the step that each belongs to
 */
export function showAgent(entry, task, told) {
  const place = byId("agent");
  if (!entry || (!entry.evidence && !entry.hidden)) {
    fill(place);
    return [];
  }
  if (entry.hidden) {
    fill(place, element("h3", {}, "Agent"), element("p", { class: "hidden" }, "Hidden until you have decided."));
    return [];
  }
  const said = entry.evidence;
  if (!said.verdict) {
    fill(place);
    return [];
  }
  const windows = said.steps.filter((step) => step.window).map((step) => step.window);
  let n = -1;
  fill(
    place,
    element("h3", {}, "Agent"),
    element("p", { class: "said" }, chip(said.verdict), element("span", {}, certainty(said)), likelier(said)),
    said.reason ? element("p", {}, said.reason) : null,
    said.steps.length ? element("ol", { class: "steps" }, said.steps.map((step) => stepOf(step, step.window ? ++n : null, told))) : null,
    said.contrary?.length ? element("div", {}, element("h3", {}, "Speaks against it"), measuredOf(said.contrary, "contrary")) : null,
  );
  return windows;
}

/** Marks the step whose window is on the plot. */
export function markStep(active) {
  for (const step of byId("agent").querySelectorAll(".step[data-window]")) {
    const here = Number(step.dataset.window) === active;
    step.classList.toggle("active", here);
    if (here) step.scrollIntoView({ block: "nearest" });
  }
}

export function chip(verdict) {
  return element("span", { class: `chip ${verdict}` }, verdict.replace("_", " "));
}

/** What was decided on this spectrum, mine first; events that were taken back are not shown. */
export function showDecisions(history, reviewer) {
  const mine = history?.votes?.find((vote) => vote.reviewer === reviewer) ?? null;
  byId("mine").textContent = mine ? `You said ${sentence(mine)}` : "";
  for (const button of document.querySelectorAll("[data-verdict]")) {
    button.setAttribute("aria-pressed", String(mine?.verdict === button.dataset.verdict));
  }
  const others = (history?.votes ?? []).filter((vote) => vote.reviewer !== reviewer);
  const merged = history?.merged;
  fill(
    byId("others"),
    others.length ? element("h3", {}, reviewer ? "Others" : "People") : null,
    others.map((vote) => element("p", {}, `${vote.reviewer}: ${sentence(vote)}`)),
    others.length && merged?.conflict ? element("p", { class: "contrary" }, "These decisions are in conflict.") : null,
  );
  return mine;
}

function sentence(vote) {
  const parts = [vote.verdict, (vote.quality ?? null) === null ? "" : `quality ${vote.quality}`, vote.likelier ? `likelier ${vote.likelier}` : "",
    vote.issues ? `issues ${vote.issues}` : "", vote.flagged ? "flagged" : "", vote.comment ? `“${vote.comment}”` : ""];
  return parts.filter(Boolean).join(", ");
}

function certainty(said) {
  const parts = [];
  if (said.p !== null && said.p !== undefined) parts.push(`p(yes) ${number(said.p, 2)}${said.calibrated ? "" : ", not calibrated"}`);
  else if (said.confidence !== null && said.confidence !== undefined) parts.push(`confidence ${number(said.confidence, 2)}`);
  if (said.band) parts.push(`triage: ${said.band}`);
  return parts.join(" · ");
}

const likelier = (said) => (said.likelier ? element("span", {}, `likelier ${said.likelier}`) : null);

function stepOf(step, place, told) {
  const go = place === null ? null : element(
    "button",
    { type: "button", class: "go", "aria-label": `Show window ${place + 1}, ${windowText(step.window)}`, onclick: () => told.go(place) },
    `${place + 1} · ${windowText(step.window)}`,
  );
  return element(
    "li",
    { class: "step", "data-window": place === null ? null : String(place) },
    go,
    step.text ? element("p", {}, step.text) : null,
    step.trouble ? element("p", { class: "contrary" }, step.trouble) : null,
    step.measured?.length ? measuredOf(step.measured, "measured") : null,
    step.claims?.length ? claimsOf(step.claims) : null,
  );
}

function claimsOf(claims) {
  return element("ul", { class: "claims" }, claims.map((claim) => {
    const state = String(claim.state ?? "").replace(" ", "_");
    const found = [STATES[state] ?? "", claim.why || (claim.measured ? measuredText(claim.measured) : "")];
    return element("li", { class: state }, `${claim.text || claim.feature || ""} `, element("small", {}, found.filter(Boolean).join(" · ")));
  }));
}

const measuredOf = (items, kind) => element("ul", { class: `claims ${kind}` }, items.map((m) => element("li", {}, measuredText(m))));

function measuredText(m) {
  const value = m.value === null || m.value === undefined ? "not measurable" : `${valueAndError(m.value, m.error)}${m.unit ? ` ${m.unit}` : ""}`;
  return `${m.name} ${value}${m.says ? `: ${m.says}` : ""}${m.note ? ` (${m.note})` : ""}`;
}

const windowText = (window) => `${window[0].toFixed(0)}–${window[1].toFixed(0)} Å`;
