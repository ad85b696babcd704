// Small helpers for elements. Texts are always set as text, never as HTML: ids and comments come from strangers.

export const byId = (id) => document.getElementById(id);

/** An element with properties (`class`, `form`, `data-…`, `aria-…` as attributes; the rest as properties) and children. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class" || name.includes("-") || name === "role" || name === "for" || name === "form") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...kept(children));
  return made;
}

export function fill(parent, ...children) {
  parent.replaceChildren(...kept(children));
}

const kept = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** What marks a spectrum that is no observation; nothing for one that is. */
export const simulatedMark = (simulated) => (simulated ? element("span", { class: "simulated" }, "SIMULATED") : null);

/** A number for people: `12.3`, `0.0041`, with a real minus sign. */
export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const text = Math.abs(value) >= 100 && Math.abs(value) < 1e6 ? value.toFixed(0) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

/** `5.551 ± 0.086`: the error with two figures, the value to match; without an error as `number`. */
export function valueAndError(value, error) {
  if (!(error > 0) || !Number.isFinite(error)) return number(value);
  const decimals = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(error))));
  return `${value.toFixed(decimals)} ± ${error.toFixed(decimals)}`.replace("-", "−");
}

/** Milliseconds that a word on what has happened stays; a problem stays until the next one. */
const STAYS = 4000;

let leaving = 0;

/** Says something to those who cannot see it, and shows it for a while; of the kind `quiet` it is not shown. */
export function announce(text, kind = "") {
  const place = byId("status");
  clearTimeout(leaving);
  place.textContent = "";
  place.dataset.kind = kind;
  // A new text node, so that the same words twice are spoken twice.
  place.append(document.createTextNode(text));
  if (kind !== "problem") leaving = setTimeout(() => { place.textContent = ""; }, STAYS);
}
