// A look: one spectrum in a frame and a smoothing, as arrays to draw. Pure numbers; nothing here knows of pixels.

import { fromAir, stretch } from "./waves.js";
import { goodPixels, smoothed } from "./smooth.js";

/** A step of so many typical ones is a gap, which no line bridges: an arm may be missing. */
const GAP_STEPS = 5;

/**
 * @typedef {object} Setting
 * @property {boolean} rest      rest frame, or as observed
 * @property {number} z          redshift
 * @property {number} velocity   km/s on top of it
 * @property {number} smoothing  σ of the Gaussian in pixels; 0 for none
 */

export class Look {
  constructor(spectrum, setting) {
    this.spectrum = spectrum;
    this.setting = setting;
    this.good = goodPixels(spectrum.flux, spectrum.sigma);
    const shown = smoothed(spectrum.flux, spectrum.sigma, setting.smoothing);
    this.flux = shown.flux;
    this.sigma = shown.sigma;
    this.hasErrors = spectrum.sigma.some((s) => Number.isFinite(s));
    this.factor = stretch(setting.z, setting.velocity);
    this.wave = Float64Array.from(spectrum.wave, (w) => this.fromObserved(w));
  }

  /** Where an observed wavelength of the spectrum's medium stands on the axis. */
  fromObserved(wave) {
    return this.setting.rest ? wave / this.factor : wave;
  }

  /** Where a rest wavelength of the spectrum's medium stands on the axis. */
  fromRest(wave) {
    return this.setting.rest ? wave : wave * this.factor;
  }

  /** Where a line of a list (Å, air, at rest) stands on the axis. */
  line(air) {
    return this.fromRest(fromAir(air, this.spectrum.medium));
  }

  /** Where something in the Earth's air or sky (Å, air, observed) stands on the axis. */
  sky(air) {
    return this.fromObserved(fromAir(air, this.spectrum.medium));
  }

  /** Where a window of the agent stands on the axis; its wavelengths were divided by 1 + z. */
  agent(window, z) {
    return window.map((wave) => this.fromObserved(wave * (1 + (z ?? 0))));
  }

  get range() {
    const { wave } = this;
    return wave.length ? [wave[0], wave[wave.length - 1]] : [0, 1];
  }

  /** What the axis measures, in words: `Wavelength (Å, vacuum, rest frame)`. */
  get axis() {
    const medium = this.spectrum.medium === "unknown" ? "air or vacuum?" : this.spectrum.medium;
    const { rest, z, velocity } = this.setting;
    const known = z !== 0 || velocity !== 0 || (this.spectrum.z ?? null) !== null || this.spectrum.frame === "rest";
    return `Wavelength (Å, ${medium}, ${rest ? (known ? "rest frame" : "rest frame if z is 0") : "as observed"})`;
  }

  /** [x, raw flux, shown flux] for uPlot: null where nothing is known, and between arms that do not meet. */
  columns() {
    const { wave } = this;
    const raw = this.spectrum.flux;
    const step = median(Array.from(wave.subarray(1), (w, i) => w - wave[i]));
    const x = [], faint = [], bold = [];
    for (let i = 0; i < wave.length; i++) {
      if (i && wave[i] - wave[i - 1] > GAP_STEPS * step) {
        x.push((wave[i] + wave[i - 1]) / 2);
        faint.push(null);
        bold.push(null);
      }
      x.push(wave[i]);
      faint.push(Number.isFinite(raw[i]) ? raw[i] : null);
      bold.push(Number.isFinite(this.flux[i]) ? this.flux[i] : null);
    }
    return [x, this.setting.smoothing > 0 ? faint : faint.map(() => null), bold];
  }

  /** First and last index whose pixel lies within [low, high]. */
  within(low, high) {
    const { wave } = this;
    const first = lowerBound(wave, low);
    let last = lowerBound(wave, high);
    if (last < wave.length && wave[last] === high) last++;
    return [first, last];
  }

  /** Index of the pixel nearest to x. */
  nearest(x) {
    const i = lowerBound(this.wave, x);
    if (i <= 0) return 0;
    if (i >= this.wave.length) return this.wave.length - 1;
    return x - this.wave[i - 1] < this.wave[i] - x ? i - 1 : i;
  }

  /** The median flux of the good pixels between two wavelengths; NaN without any. */
  level(low, high) {
    const [first, last] = this.within(low, high);
    const values = [];
    for (let i = first; i < last; i++) if (this.good[i] && Number.isFinite(this.flux[i])) values.push(this.flux[i]);
    return values.length ? median(values) : NaN;
  }

  /**
   * The flux range to show between two wavelengths: 0.5 to 99.5 percent of the good pixels, wider where a feature of
   * two pixels or more needs it; an isolated spike is clipped. `whole` takes every finite pixel.
   */
  fluxRange(low, high, whole = false) {
    const [first, last] = this.within(low, high);
    const values = [], errors = [];
    for (let i = first; i < last; i++) {
      if (!Number.isFinite(this.flux[i]) || (!whole && !this.good[i])) continue;
      values.push(this.flux[i]);
      errors.push(this.sigma[i]);
    }
    if (!values.length) return whole ? [0, 1] : this.fluxRange(low, high, true);
    let bottom, top;
    if (whole || values.length < 3) {
      bottom = values.reduce((a, b) => Math.min(a, b));
      top = values.reduce((a, b) => Math.max(a, b));
    } else {
      const middle = values.slice(1, -1).map((v, i) => middleOf(values[i], v, values[i + 2]));
      const sorted = Float64Array.from(middle).sort();
      bottom = quantile(sorted, 0.005);
      top = quantile(sorted, 0.995);
      const limit = Math.max(top - bottom, 0) / 2;
      middle.forEach((v, i) => {
        if (this.hasErrors && !(errors[i + 1] <= limit)) return;
        bottom = Math.min(bottom, v);
        top = Math.max(top, v);
      });
    }
    const pad = 0.07 * (top - bottom) || 0.05 * Math.abs(top) || 1;
    return [bottom - pad, top + pad];
  }
}

function lowerBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function middleOf(a, b, c) {
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c));
}

function median(values) {
  return values.length ? quantile(Float64Array.from(values).sort(), 0.5) : 0;
}

function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  const i = Math.floor(place);
  return sorted[i] + (place - i) * ((sorted[i + 1] ?? sorted[i]) - sorted[i]);
}
