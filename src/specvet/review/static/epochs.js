// The object that a spectrum is of: its epochs, to step through or to stack, and what the votes on them amount to.

import { chip } from "./agent.js";
import { byId, element, fill } from "./dom.js";

/** Colours that page.css has for stacked epochs. */
export const TONES = 6;

const WHO = { person: "people", triage: "triage", policy: "agent" };

export const timeOf = (mjd) => (mjd === null || mjd === undefined ? "no date" : `MJD ${mjd.toFixed(2)}`);

export class Epochs {
  /** @param {{go: (item: string) => void, stack: () => void}} told */
  constructor(told) {
    this.told = told;
    this.stacked = false;
    this.show(null, null);
  }

  /** Shows the epochs of an object, of which `item` is on; nothing where it is the only one. */
  show(object, item) {
    this.epochs = object?.epochs ?? [];
    this.item = item;
    const place = byId("epochs");
    place.hidden = !this.epochs.length;
    if (place.hidden) {
      fill(place);
      return;
    }
    const at = object.first + this.#at();
    fill(
      place,
      element("p", { class: "object-of" }, element("b", {}, object.id), ` ${at + 1} of ${object.n.toLocaleString("en")} epochs`),
      element("div", { class: "times" }, this.epochs.map((epoch, k) => this.#button(epoch, k))),
      element("button", { type: "button", id: "stack", "aria-pressed": String(this.stacked), "aria-keyshortcuts": "O", title: "O: all epochs over each other",
        onclick: () => this.told.stack() }, "Stack"),
      combinedOf(object.combined),
      object.notes.map((note) => element("p", { class: "measured" }, note)),
    );
  }

  /** The item of the next epoch (step 1) or the one before (−1); null at the end. */
  step(step) {
    return this.epochs[this.#at() + step]?.item ?? null;
  }

  /** The epochs beside the one that is on, with the tone that each has wherever it is drawn. */
  get others() {
    return this.epochs.map((epoch, k) => ({ ...epoch, tone: k % TONES })).filter((epoch) => epoch.item !== this.item);
  }

  toggle() {
    this.stacked = !this.stacked;
    byId("stack")?.setAttribute("aria-pressed", String(this.stacked));
    return this.stacked;
  }

  #at() {
    return this.epochs.findIndex((epoch) => epoch.item === this.item);
  }

  #button(epoch, k) {
    const here = epoch.item === this.item;
    const said = epoch.mine ? `you ${epoch.mine}` : epoch.says ? `${WHO[epoch.by]} ${epoch.says}` : "";
    return element(
      "button",
      { type: "button", class: `epoch tone-${k % TONES}`, "aria-pressed": String(here), title: [epoch.id, epoch.survey].filter(Boolean).join(", "),
        onclick: () => here || this.told.go(epoch.item) },
      `${timeOf(epoch.mjd)}${said ? ` · ${said}` : ""}`,
    );
  }
}

/** The verdict over all epochs, by which rule it comes, and why that one. */
function combinedOf(combined) {
  if (!combined) return null;
  return element(
    "details",
    { class: "combined" },
    element("summary", {}, "Object ", chip(combined.answer), ` ${combined.reason}`, combined.conflict ? element("b", { class: "contrary" }, " · in conflict") : null),
    element("p", {}, `Rule ${combined.rule}: ${combined.says}. ${combined.why}`),
  );
}
