// The spectrum of one entry: plot, tools and key windows. It keeps how the reviewer looks from one spectrum to the next.

import { byId, element, fill, number } from "./dom.js";
import { Look } from "./look.js";
import { SpectrumPlot } from "./plot.js";
import { sketch } from "./sketch.js";
import { Stacked } from "./stack.js";
import { EXTRAGALACTIC, LIGHT_KM_S } from "./waves.js";

/** A redshift beyond this many km/s is applied only when the reviewer asks for it, as the agent's frame does. */
const MOST_OF_A_STAR = 1000;

/** From this redshift on the lines shown are those of galaxies and quasars: no star of our Galaxy moves so fast. */
const NO_STAR = 0.01;

const SMOOTHING_STEP = 0.5;

export class Viewer {
  constructor(told) {
    this.told = told;
    this.entry = null;
    this.task = null;
    this.look = null;
    this.setting = { rest: true, z: 0, velocity: 0, smoothing: 0 };
    this.shown = { lines: true, band: true, mask: true };
    this.windows = [];
    this.active = -1;
    this.wanted = null;
    this.plot = new SpectrumPlot(byId("plot"), {
      read: (text) => { byId("reading").textContent = text; },
      moved: () => this.#moved(),
    });
    this.#wire();
  }

  /** @param {object} entry  of Walk  @param {object} task  of the session  @param {number[][]} windows  the agent's */
  show(entry, task, windows) {
    this.entry = entry;
    this.task = task;
    this.active = -1;
    const { spectrum } = entry;
    byId("plot").hidden = !spectrum;
    byId("no-plot").hidden = Boolean(spectrum);
    if (!spectrum) {
      this.clear(`${entry.problem.message}; ${entry.problem.remedy}`);
      byId("object-id").textContent = titleOf(entry);
      return;
    }
    const z = firstRedshift(spectrum);
    this.setting = { ...this.setting, z, velocity: 0, rest: this.wanted ?? (z !== 0 || spectrum.frame === "rest") };
    this.given = windows;
    this.plot.stack = [];
    this.look = new Look(spectrum, this.setting);
    this.#callouts();
    this.#facts(spectrum);
    this.#place();
    this.plot.show(this.look, this.#marks());
    this.#tools();
  }

  /** Shows no spectrum, and why. */
  clear(why) {
    this.look = null;
    byId("plot").hidden = true;
    byId("no-plot").hidden = false;
    byId("no-plot").textContent = why;
    for (const id of ["callouts", "window", "reading"]) fill(byId(id));
    this.#facts(null);
  }

  /** Changes how the spectrum is looked at; what is on the plot stays on it. */
  set(change) {
    if (!this.look) return;
    const observed = this.plot.window.map((x) => this.#toObserved(x));
    this.setting = { ...this.setting, ...change };
    this.look = new Look(this.entry.spectrum, this.setting);
    for (const one of this.plot.stack) one.look(this.setting);
    this.#place();
    this.plot.show(this.look, this.#marks(), observed.map((x) => this.look.fromObserved(x)));
    this.#tools();
    this.#drawCallouts();
  }

  /** Draws other epochs with this one: {spectrum, tone, label} each, `own` the label of this one; none to end it. */
  stack(epochs, own) {
    if (!this.look) return;
    this.plot.stack = epochs.map((epoch) => new Stacked(epoch, this.entry.spectrum.medium));
    for (const one of this.plot.stack) one.look(this.setting);
    this.plot.ownLabel = own;
    this.plot.draw();
  }

  /** Rest frame or as observed; from then on for every spectrum. */
  turn() {
    this.wanted = !this.setting.rest;
    this.set({ rest: this.wanted });
  }

  toggle(name) {
    this.shown = { ...this.shown, [name]: !this.shown[name] };
    byId(name).setAttribute("aria-pressed", String(this.shown[name]));
    this.plot.mark(this.#marks());
  }

  clip() {
    this.plot.whole = !this.plot.whole;
    byId("clip").setAttribute("aria-pressed", String(!this.plot.whole));
    this.plot.draw();
  }

  smooth(steps) {
    const value = Math.min(12, Math.max(0, this.setting.smoothing + steps * SMOOTHING_STEP));
    this.set({ smoothing: value });
  }

  reset() {
    this.active = -1;
    this.plot.mark(this.#marks());
    this.plot.reset();
    this.told.window(-1);
  }

  /** The next window of the agent (step 1) or the one before (−1); without an agent, of the class. */
  step(step) {
    const n = this.windows.length || this.keyWindows.length;
    if (!n || !this.look) return;
    this.go((this.active + step + (this.active < 0 && step < 0 ? 1 : 0) + n) % n);
  }

  go(i) {
    const window = this.windows[i] ?? this.keyWindows[i];
    if (!window || !this.look) return;
    this.active = i;
    this.plot.mark(this.#marks());
    const margin = 0.08 * (window[1] - window[0]);
    this.plot.zoom([window[0] - margin, window[1] + margin]);
    this.told.window(i);
  }

  /** What is on the screen, for the record of a decision. */
  record() {
    if (!this.look) return { spectrum: false };
    const { rest, z, velocity, smoothing } = this.setting;
    return { spectrum: true, frame: rest ? "rest" : "observed", z, velocity, smoothing, window: this.plot.window.map((x) => Number(x.toFixed(2))) };
  }

  /** The redshift that the reviewer set, with the velocity on top; null where it is as the page chose it. */
  redshift() {
    if (!this.look) return null;
    const { z, velocity } = this.setting;
    if (z === firstRedshift(this.entry.spectrum) && velocity === 0) return null;
    return Number(((1 + z) * (1 + velocity / LIGHT_KM_S) - 1).toFixed(6));
  }

  get keyWindows() {
    return (this.task?.windows ?? []).map((w) => [this.look.line(w.low), this.look.line(w.high)]);
  }

  #toObserved(x) {
    return this.setting.rest ? x * this.look.factor : x;
  }

  #place() {
    const z = this.entry.evidence?.z ?? this.entry.spectrum.look_z ?? 0;
    this.windows = this.given.map((window) => this.look.agent(window, z));
  }

  #marks() {
    const star = Math.abs(this.setting.z) < NO_STAR;
    return {
      lines: star ? this.task.lines : EXTRAGALACTIC,
      bands: star ? this.task.bands : [],
      windows: this.windows,
      active: this.windows.length ? this.active : -1,
      shown: this.shown,
    };
  }

  #moved() {
    const [low, high] = this.plot.window;
    byId("window").textContent = this.look ? `${low.toFixed(0)}–${high.toFixed(0)} Å` : "";
  }

  #facts(spectrum) {
    const warnings = spectrum?.warnings ?? [];
    byId("simulated").hidden = !warnings.some((text) => text.includes("SIMULATED"));
    byId("warnings").hidden = !warnings.length;
    byId("warnings").textContent = warnings.join("; ");
    byId("object-id").textContent = spectrum ? spectrum.id || spectrum.item : "";
    const facts = spectrum ? [
      spectrum.survey === "unknown" ? "" : spectrum.survey,
      spectrum.snr === null ? "" : `S/N ${number(spectrum.snr, 2)}`,
      spectrum.medium === "unknown" ? "air or vacuum not stated" : spectrum.medium,
      spectrum.frame && spectrum.frame !== "unknown" ? spectrum.frame : "",
      spectrum.z === null || spectrum.z === undefined ? "no redshift stated" : `file z ${number(spectrum.z, 4)}${spectrum.z_warning ? ` (${spectrum.z_warning})` : ""}`,
    ] : [];
    byId("facts").textContent = facts.filter(Boolean).join(" · ");
  }

  #tools() {
    const { rest, z, velocity, smoothing } = this.setting;
    byId("frame").setAttribute("aria-pressed", String(rest));
    byId("smoothing").value = smoothing;
    byId("smoothing").setAttribute("aria-valuetext", smoothing ? `Gaussian of ${smoothing} pixels` : "none");
    byId("velocity").setAttribute("aria-valuetext", `${velocity} kilometres a second`);
    byId("smoothing-said").textContent = smoothing ? `σ ${smoothing} px` : "none";
    byId("velocity").value = velocity;
    byId("velocity-said").textContent = `${velocity > 0 ? "+" : ""}${velocity} km/s`.replace("-", "−");
    byId("z-slider").value = z;
    if (document.activeElement !== byId("z")) byId("z").value = Number(z.toFixed(6));
  }

  /** A small picture of each key window that the spectrum covers; a click zooms there. */
  #callouts() {
    const told = (w) => [w.why, ...(w.traps ?? []).map((trap) => `${trap.name}: ${trap.effect}`)].filter(Boolean).join("\n");
    const zoom = (i) => () => {
      this.active = -1;
      this.plot.mark(this.#marks());
      this.plot.zoom(this.keyWindows[i]);
    };
    fill(byId("callouts"), (this.task?.windows ?? []).map((window, i) => this.#covers(window) && element(
      "button",
      { type: "button", class: "callout", "data-window": String(i), title: told(window), "aria-label": `Zoom to ${window.name}`, onclick: zoom(i) },
      element("span", {}, window.name),
      element("canvas", { "aria-hidden": "true" }),
    )));
    this.#drawCallouts();
  }

  #covers(window) {
    const [low, high] = this.look.range;
    return this.look.line(window.high) > low && this.look.line(window.low) < high;
  }

  #drawCallouts() {
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => {
      if (!this.look) return;
      for (const button of byId("callouts").children) {
        const window = this.task.windows[Number(button.dataset.window)];
        const [low, high] = [this.look.line(window.low), this.look.line(window.high)];
        const [bottom, top] = this.look.fluxRange(low, high);
        const marks = this.shown.lines ? this.task.lines.map((line) => this.look.line(line.wave)).filter((x) => x > low && x < high) : [];
        const [first, last] = this.look.within(low, high);
        sketch(button.querySelector("canvas"), this.look.wave.subarray(first, last), this.look.flux.subarray(first, last), { low, high, bottom, top, marks });
      }
    });
  }

  redraw() {
    this.plot.draw();
    this.#drawCallouts();
  }

  #wire() {
    byId("reset").addEventListener("click", () => this.reset());
    byId("frame").addEventListener("click", () => this.turn());
    for (const name of ["lines", "band", "mask"]) byId(name).addEventListener("click", () => this.toggle(name));
    byId("clip").addEventListener("click", () => this.clip());
    byId("smoothing").addEventListener("input", (event) => this.set({ smoothing: Number(event.target.value) }));
    byId("velocity").addEventListener("input", (event) => this.set({ velocity: Number(event.target.value) }));
    byId("z-slider").addEventListener("input", (event) => this.set({ z: Number(event.target.value) }));
    byId("z").addEventListener("change", (event) => {
      const z = Number(event.target.value);
      if (event.target.value !== "" && Number.isFinite(z) && z > -1) this.set({ z });
      else this.#tools();
    });
    byId("z").addEventListener("keydown", (event) => event.key === "Enter" && event.target.blur());
    new ResizeObserver(() => this.#drawCallouts()).observe(byId("callouts"));
  }
}

/** What an entry is called: its id, and where it cannot be read its file too. */
export function titleOf({ item, spectrum, problem }) {
  if (spectrum) return spectrum.id || item;
  const { id, file, row } = problem.about;
  if (!file) return item; // the server did not answer
  const place = row ? `${file}, row ${row}` : file;
  return !id || file.endsWith(id) ? place : `${id} · ${place}`;
}

/** The redshift to begin with: what the agent looked at, else the file's where a star can have it, else 0. */
function firstRedshift(spectrum) {
  if (Number.isFinite(spectrum.look_z)) return spectrum.look_z;
  const { z } = spectrum;
  return Number.isFinite(z) && !spectrum.z_warning && Math.abs(z) * LIGHT_KM_S < MOST_OF_A_STAR ? z : 0;
}
