// The plot: uPlot for axes and lines, overlay.js for the rest; zoom and pan by mouse, touch and keys.

import uPlot from "./vendor/uPlot-1.6.32.js";
import { colour } from "./colours.js";
import { number } from "./dom.js";
import { drawOver, drawUnder } from "./overlay.js";
import { drawStack, nameStack } from "./stack.js";
import { velocityOf } from "./waves.js";

/** The narrowest window, in pixels of the spectrum. */
const LEAST_PIXELS = 8;

/** Two fingers that are closer, in CSS pixels, say nothing of a scale. */
const LEAST_APART = 12;

const NOTHING = { lines: [], bands: [], windows: [], active: -1, shown: { lines: true, band: true, mask: true } };

export class SpectrumPlot {
  /** @param {HTMLElement} root  @param {{read: (text: string) => void, moved: () => void}} told */
  constructor(root, told) {
    this.root = root;
    this.told = told;
    this.look = null;
    this.marks = NOTHING;
    this.whole = false;
    this.stack = [];
    this.ownLabel = "";
    this.window = [0, 1];
    this.frame = 0;
    this.exponent = 0;
    this.u = new uPlot(this.#options(), [[0, 1], [null, null], [null, null]], root);
    new ResizeObserver(() => this.#fit()).observe(root);
    this.#listen();
  }

  /** Shows a look; `window` (Å on its axis) or all of it. */
  show(look, marks, window = null) {
    this.look = look;
    this.marks = marks;
    this.u.setData(look.columns(), false);
    this.zoom(window ?? look.range);
  }

  /** Draws the same look with other marks. */
  mark(marks) {
    this.marks = marks;
    this.draw();
  }

  /** Shows from window[0] to window[1] Å, kept inside the spectrum and not too narrow. */
  zoom(window) {
    if (!this.look) return;
    const [first, last] = this.look.range;
    const least = (LEAST_PIXELS * (last - first)) / Math.max(LEAST_PIXELS, this.look.wave.length);
    let [low, high] = window;
    const span = Math.min(Math.max(high - low, least), last - first);
    const middle = (low + high) / 2;
    low = Math.min(Math.max(middle - span / 2, first), last - span);
    high = low + span;
    this.window = [low, high];
    this.draw();
  }

  reset() {
    if (this.look) this.zoom(this.look.range);
  }

  /** Moves by a share of the window; positive to the red. */
  pan(share) {
    const step = share * (this.window[1] - this.window[0]);
    this.zoom(this.window.map((x) => x + step));
  }

  /** Shows `factor` times as much around x (by default the middle). */
  scale(factor, x = (this.window[0] + this.window[1]) / 2) {
    this.zoom(this.window.map((edge) => x + (edge - x) * factor));
  }

  /** Takes effect in the next frame; several changes make one drawing. */
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.drawNow();
    });
  }

  drawNow() {
    if (!this.look) return;
    const [low, high] = this.window;
    let [bottom, top] = this.look.fluxRange(low, high, this.whole);
    for (const other of this.stack) {
      const range = other.fit(this.look, low, high, this.whole);
      if (range) [bottom, top] = [Math.min(bottom, range[0]), Math.max(top, range[1])];
    }
    this.exponent = commonExponent(Math.max(Math.abs(bottom), Math.abs(top)));
    const [first, last] = this.look.within(low, high);
    // Without a graphics card a hairline is drawn in half the time of anything wider; where pixels are dense, it is enough.
    this.u.series[2].width = last - first > this.u.width ? 1 : 1.4;
    this.u.batch(() => {
      this.u.setScale("x", { min: low, max: high });
      this.u.setScale("y", { min: bottom, max: top });
    });
    this.u.redraw(false, true);
    this.root.setAttribute("aria-label", this.#words());
    this.told.moved();
  }

  #words() {
    const { spectrum, setting } = this.look;
    const width = setting.smoothing > 0 ? `, smoothed by ${setting.smoothing} pixels` : "";
    const at = this.window.map((x) => x.toFixed(0)).join(" to ");
    return `Spectrum of ${spectrum.id || spectrum.item}: ${at}; ${this.look.axis}${width}`;
  }

  #options() {
    const axis = {
      stroke: () => colour("ink"),
      grid: { stroke: () => colour("grid"), width: 1 },
      ticks: { stroke: () => colour("axis"), width: 1, size: 5 },
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
    };
    const line = (name, width) => ({ stroke: () => colour(name), width, points: { show: false }, spanGaps: false });
    return {
      ...this.#size(),
      padding: [36, 14, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, auto: false }, y: { auto: false } },
      axes: [
        { ...axis, size: 30, labelSize: 18, label: () => this.look?.axis ?? "", space: 70, values: (_, ticks) => ticks.map(String) },
        { ...axis, size: 48, labelSize: 18, label: () => this.#fluxLabel(), splits: (u, _, low, high) => ticksOf(low, high, u.height / 40), values: (_, ticks) => ticks.map((y) => this.#fluxTick(y)) },
      ],
      series: [{}, line("faint", 1), line("flux", 1)],
      hooks: {
        drawClear: [(u) => this.look && drawUnder(u, this.look, this.marks.shown), (u) => this.look && drawStack(u, this.stack)],
        draw: [(u) => this.look && drawOver(u, this.look, this.marks), (u) => this.look && nameStack(u, this.stack, this.ownLabel)],
        setSelect: [(u) => this.#selected(u)],
        setCursor: [(u) => this.#read(u)],
      },
    };
  }

  #fluxLabel() {
    const unit = unitWords(this.look?.spectrum.unit ?? "");
    const power = this.exponent ? ` / 10${superscript(this.exponent)}` : "";
    return `Flux${power}${unit ? ` (${unit.length > 36 ? `${unit.slice(0, 35)}…` : unit})` : ""}`;
  }

  #fluxTick(value) {
    return String(Number((value / 10 ** this.exponent).toPrecision(6))).replace("-", "−");
  }

  #size() {
    const box = this.root.getBoundingClientRect();
    return { width: Math.max(240, Math.floor(box.width)), height: Math.max(160, Math.floor(box.height)) };
  }

  #fit() {
    const size = this.#size();
    if (size.width === this.u.width && size.height === this.u.height) return;
    this.u.setSize(size);
    this.draw();
  }

  #selected(u) {
    const { left, width } = u.select;
    if (width < 3) return;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
  }

  /** Where the pointer is: wavelength, flux with its error, and the velocity from the nearest line of the class. */
  #read(u) {
    const { left } = u.cursor;
    if (!this.look || left === undefined || left < 0) {
      this.told.read("");
      return;
    }
    const x = u.posToVal(left, "x");
    const i = this.look.nearest(x);
    const sigma = Number.isFinite(this.look.sigma[i]) ? ` ± ${number(this.look.sigma[i], 2)}` : "";
    let text = `${x.toFixed(1)} Å · flux ${number(this.look.flux[i])}${sigma}`;
    const lines = this.marks.lines.map((line) => [this.look.line(line.wave), line.name]);
    const near = lines.reduce((best, line) => (!best || Math.abs(line[0] - x) < Math.abs(best[0] - x) ? line : best), null);
    if (near && Math.abs(velocityOf(x, near[0])) < 6000) {
      text += ` · ${velocityOf(x, near[0]).toFixed(0).replace("-", "−")} km/s from ${near[1]}`;
    }
    this.told.read(text);
  }

  #listen() {
    const over = this.u.over;
    over.addEventListener("wheel", (event) => {
      event.preventDefault();
      const x = this.u.posToVal(event.clientX - over.getBoundingClientRect().left, "x");
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / 800);
      else this.scale(Math.exp(event.deltaY / 400), x);
    }, { passive: false });
    over.addEventListener("dblclick", () => this.reset());
    // The right button, or the left one with Shift, takes hold of the spectrum instead of choosing a window.
    over.addEventListener("contextmenu", (event) => event.preventDefault());
    over.addEventListener("mousedown", (event) => {
      if (event.button !== 2 && !event.shiftKey) return;
      event.stopImmediatePropagation();
      event.preventDefault();
      this.#hold(event.clientX);
    }, { capture: true });
    this.#touch(over);
  }

  #hold(from) {
    const start = [...this.window];
    const perPixel = (start[1] - start[0]) / this.u.over.clientWidth;
    const move = (event) => this.zoom(start.map((x) => x - (event.clientX - from) * perPixel));
    const release = () => {
      removeEventListener("mousemove", move);
      removeEventListener("mouseup", release);
    };
    addEventListener("mousemove", move);
    addEventListener("mouseup", release);
  }

  /** One finger moves the spectrum; two stretch it, and what is under each stays there. Up and down scrolls the page. */
  #touch(over) {
    let held = null;
    const places = (event) => Array.from(event.targetTouches, (t) => t.clientX - over.getBoundingClientRect().left).slice(0, 2);
    const value = (p) => this.window[0] + (p / over.clientWidth) * (this.window[1] - this.window[0]);
    const hold = (event) => {
      held = places(event).map(value);
    };
    for (const kind of ["touchstart", "touchend", "touchcancel"]) over.addEventListener(kind, hold, { passive: true });
    over.addEventListener("touchmove", (event) => {
      const at = places(event);
      if (!held || held.length !== at.length) return hold(event);
      if (at.length === 2) {
        if (event.cancelable) event.preventDefault();
        const apart = at[1] - at[0];
        if (Math.abs(apart) < LEAST_APART || (apart > 0) !== (held[1] > held[0])) return undefined;
        const perPixel = (held[1] - held[0]) / apart;
        const low = held[0] - at[0] * perPixel;
        this.zoom([low, low + over.clientWidth * perPixel]);
      } else if (at.length === 1) {
        const step = held[0] - value(at[0]);
        this.zoom(this.window.map((x) => x + step));
      }
      return undefined;
    }, { passive: false });
  }
}

/** A unit as people write it: `10**-17 erg/(s cm2 Angstrom)` is `10⁻¹⁷ erg / (s cm² Å)`, and so is SDSS's `1E-17 …/Ang`. */
export function unitWords(unit) {
  return unit.replace(/\b1E([-+]?\d+)/gi, (_, power) => `10${superscript(Number(power))}`)
    .replace(/\*\*([-+]?\d+)|\^([-+]?\d+)/g, (_, a, b) => superscript(Number(a ?? b)))
    .replace(/\bcm2\b/g, "cm²").replace(/\bAng(stroms?)?\b/gi, "Å").replace(/\s*\/\s*/g, " / ");
}

/** The power of ten to take out of an axis; 0 where numbers read well as they are. */
function commonExponent(most) {
  const exponent = most > 0 ? Math.floor(Math.log10(most)) : 0;
  return exponent >= -2 && exponent <= 4 ? 0 : exponent;
}

/** Round values from low to high, about so many. uPlot's own end at steps of 1e-16, and fluxes are as small as that. */
export function ticksOf(low, high, most) {
  const least = (high - low) / Math.max(2, most);
  if (!(least > 0) || !Number.isFinite(least)) return [low];
  const power = Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((m) => Number(`${m}e${power}`)).find((s) => s >= least * 0.999);
  const first = Math.ceil(low / step), n = Math.floor(high / step) - first + 1;
  return Array.from({ length: n }, (_, i) => (first + i) * step);
}

function superscript(n) {
  return String(n).replace(/[-0-9]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
}
