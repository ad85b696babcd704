// The form of a decision: quality, likelier class, comment, issues, flag. A verdict takes with it what stands here.

import { byId, element, fill } from "./dom.js";

/** Offered below the comment, and added to it. */
const STANDARD = ["WD+MS binary", "active M dwarf", "arm-join step", "sky residual", "low S/N", "two objects", "galaxy or QSO", "needs another epoch"];

/** Offered for the likelier class, beside the rivals of the task. */
const LIKELIER = ["WD+MS binary", "QSO", "galaxy"];

export function setLikelier(rivals) {
  fill(byId("likelier-list"), [...new Set([...rivals, ...LIKELIER])].map((name) => element("option", { value: name })));
}

export class Form {
  constructor() {
    this.drafts = new Map();
    this.key = null;
    this.clean = "";
    fill(byId("standard"), element("option", { value: "" }, "Add a comment…"), STANDARD.map((text) => element("option", {}, text)));
    byId("standard").addEventListener("change", (event) => {
      this.add(event.target.value);
      event.target.value = "";
      event.target.blur();
    });
    byId("verdict").addEventListener("submit", (event) => event.preventDefault());
    byId("flag").addEventListener("click", () => this.flag());
  }

  /** The form for one spectrum and task, as it was left. Returns nothing; `keep` is called before it changes. */
  open(key) {
    this.key = key;
    this.#write(this.drafts.get(key) ?? {});
    this.clean = this.drafts.has(key) ? "" : JSON.stringify(this.read());
  }

  /** What was decided before, where nothing has been written since. */
  recall(vote) {
    if (!vote || this.changed) return;
    this.#write(vote);
    this.clean = JSON.stringify(this.read());
  }

  /** What stood in the form of a decision that was taken back, so that nothing has to be typed again. */
  bringBack(undone) {
    if (!this.drafts.has(this.key)) this.#write(undone);
  }

  get changed() {
    return JSON.stringify(this.read()) !== this.clean;
  }

  /** Keeps what was written and not decided; true where there is something. */
  keep() {
    if (this.key === null || !this.changed) return false;
    this.drafts.set(this.key, this.read());
    return true;
  }

  /** After a decision nothing waits any more. */
  done() {
    this.drafts.delete(this.key);
    this.clean = JSON.stringify(this.read());
  }

  read() {
    const quality = document.querySelector("[name=quality]:checked");
    return {
      quality: quality ? Number(quality.value) : null,
      likelier: byId("likelier").value.trim(),
      comment: byId("comment").value.trim(),
      issues: Array.from(document.querySelectorAll("[name=issue]:checked"), (box) => box.value).join(""),
      flagged: byId("flag").getAttribute("aria-pressed") === "true",
    };
  }

  quality(value) {
    const radio = document.querySelector(`[name=quality][value="${value}"]`);
    radio.checked = !radio.checked;
    return radio.checked;
  }

  flag(on = byId("flag").getAttribute("aria-pressed") !== "true") {
    byId("flag").setAttribute("aria-pressed", String(on));
    return on;
  }

  add(text) {
    const field = byId("comment");
    if (field.value.includes(text)) return;
    field.value = field.value.trim() ? `${field.value.trim()}; ${text}` : text;
  }

  #write({ quality = null, likelier = "", comment = "", issues = "", flagged = false }) {
    for (const radio of document.querySelectorAll("[name=quality]")) radio.checked = Number(radio.value) === quality;
    for (const box of document.querySelectorAll("[name=issue]")) box.checked = (issues ?? "").includes(box.value);
    byId("likelier").value = likelier ?? "";
    byId("comment").value = comment ?? "";
    this.flag(Boolean(flagged));
  }
}
