// Small pictures of spectra: thumbnails of the grid, and the key windows of a class below the plot.

import { colour } from "./colours.js";

/**
 * Draws flux over wavelength on a canvas, as large as it is shown.
 * @param {{low: number, high: number, bottom: number, top: number, marks?: number[]}} frame  what is shown
 */
export function sketch(canvas, wave, flux, { low, high, bottom, top, marks = [] }) {
  const ratio = devicePixelRatio;
  const width = Math.max(1, Math.round(canvas.clientWidth * ratio)), height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  canvas.width = width;
  canvas.height = height;
  const ctx = canvas.getContext("2d");
  const across = (x) => ((x - low) / (high - low)) * width;
  const down = (y) => height - ((y - bottom) / (top - bottom)) * (height - 4 * ratio) - 2 * ratio;
  ctx.strokeStyle = colour("mark");
  ctx.globalAlpha = 0.6;
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.beginPath();
  for (const mark of marks) {
    ctx.moveTo(across(mark), 0);
    ctx.lineTo(across(mark), height);
  }
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colour("flux");
  ctx.lineWidth = ratio;
  ctx.beginPath();
  let drawing = false;
  for (let i = 0; i < wave.length; i++) {
    if (wave[i] < low || wave[i] > high || !Number.isFinite(flux[i])) {
      drawing = false;
      continue;
    }
    const x = across(wave[i]), y = down(flux[i]);
    if (drawing) ctx.lineTo(x, y);
    else ctx.moveTo(x, y);
    drawing = true;
  }
  ctx.stroke();
}

/** The frame of a thumbnail: 1 to 99 percent of its fluxes. */
export function wholeFrame(wave, flux) {
  const values = Float32Array.from(flux.filter((f) => Number.isFinite(f))).sort();
  if (!values.length || !wave.length) return null;
  const at = (share) => values[Math.round(share * (values.length - 1))];
  const bottom = at(0.005), top = at(0.995);
  const pad = 0.06 * (top - bottom) || 0.05 * Math.abs(top) || 1;
  return { low: wave[0], high: wave[wave.length - 1], bottom: bottom - pad, top: top + pad };
}
