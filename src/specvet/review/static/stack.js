// Other epochs of the object under the spectrum: brought to its medium and frame, and to its level in the window shown.

import { colour } from "./colours.js";
import { Look } from "./look.js";
import { airToVacuum, refractiveIndex } from "./waves.js";

/** Epochs drawn at most beside the one that is on. */
export const MOST_STACKED = 8;

/** `spectrum` with its wavelengths in `medium`; as it is where either is unknown. */
export function inMedium(spectrum, medium) {
  if (spectrum.medium === medium || ![spectrum.medium, medium].every((m) => m === "air" || m === "vacuum")) return spectrum;
  const turned = medium === "vacuum" ? airToVacuum : (w) => w / refractiveIndex(w);
  return { ...spectrum, medium, wave: Float64Array.from(spectrum.wave, turned) };
}

export class Stacked {
  /** @param {{spectrum: object, tone: number, label: string}} epoch  @param {object} medium  of the one that is on */
  constructor({ spectrum, tone, label }, medium) {
    this.spectrum = inMedium(spectrum, medium);
    this.tone = tone;
    this.label = label;
    this.factor = 1;
  }

  /** Looks at it as at the one that is on. */
  look(setting) {
    this.looked = new Look(this.spectrum, setting);
  }

  /** Takes the level of `look` between two wavelengths; returns the flux range that it then needs there. */
  fit(look, low, high, whole) {
    const mine = this.looked.level(low, high), theirs = look.level(low, high);
    this.factor = mine > 0 && theirs > 0 ? theirs / mine : 1;
    return Number.isFinite(mine) ? this.looked.fluxRange(low, high, whole).map((f) => f * this.factor) : null;
  }
}

/** Draws the stacked epochs, below the spectrum that is on. */
export function drawStack(u, stack) {
  if (!stack.length) return;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = devicePixelRatio;
  for (const one of stack) {
    ctx.strokeStyle = colour(`tone-${one.tone}`);
    trace(u, one);
  }
  ctx.restore();
}

/** When each was taken, at the top right over everything; `own` is of the one that is on. */
export function nameStack(u, stack, own) {
  if (!stack.length) return;
  const { ctx, bbox } = u;
  const px = (size) => size * devicePixelRatio;
  ctx.save();
  ctx.font = `${Math.round(px(11))}px system-ui, sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "right";
  const right = bbox.left + bbox.width - px(8);
  [{ label: own, name: "flux" }, ...stack.map((one) => ({ label: one.label, name: `tone-${one.tone}` }))].forEach(({ label, name }, row) => {
    const top = bbox.top + px(20 + 15 * row), width = ctx.measureText(label).width;
    ctx.fillStyle = colour("paper");
    ctx.globalAlpha = 0.8;
    ctx.fillRect(right - width - px(3), top - px(2), width + px(6), px(15));
    ctx.globalAlpha = 1;
    ctx.fillStyle = colour(name);
    ctx.fillText(label, right, top);
  });
  ctx.restore();
}

function trace(u, { looked, factor }) {
  const { ctx } = u;
  const [first, last] = looked.within(u.scales.x.min, u.scales.x.max);
  let drawing = false;
  ctx.beginPath();
  for (let i = Math.max(0, first - 1); i < Math.min(looked.wave.length, last + 1); i++) {
    if (!Number.isFinite(looked.flux[i])) {
      drawing = false;
      continue;
    }
    const x = u.valToPos(looked.wave[i], "x", true), y = u.valToPos(looked.flux[i] * factor, "y", true);
    if (drawing) ctx.lineTo(x, y);
    else ctx.moveTo(x, y);
    drawing = true;
  }
  ctx.stroke();
}
