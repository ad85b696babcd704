// What is drawn under and over the spectrum: errors, masked pixels, the Earth's air and sky, arm joins, lines and bands
// of the class, and where the agent looked. Each takes uPlot `u` (device pixels), the look and what to show.

import { colour } from "./colours.js";
import { SKY_AIR, TELLURIC_AIR } from "./waves.js";

const scaled = (size) => Math.round(size * devicePixelRatio);

/** Under the spectrum. `shown`: {band, mask}. */
export function drawUnder(u, look, shown) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  if (shown.mask) {
    for (const [, low, high] of TELLURIC_AIR) stripe(u, look.sky(low), look.sky(high), colour("air"));
    for (const [first, last, reason] of look.spectrum.masked ?? []) maskedStripe(u, look, first, last, reason);
    for (const join of look.spectrum.joins ?? []) {
      stripe(u, look.fromObserved(join[0]), look.fromObserved(join[1]), colour("join"), 3);
    }
  }
  if (shown.band && look.hasErrors) errorBand(u, look);
  ctx.restore();
}

/** Over the spectrum. `marks`: {lines, bands, windows, active, shown}. */
export function drawOver(u, look, marks) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.font = `${scaled(11)}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  if (marks.shown.mask) drawAirNames(u, look);
  if (marks.shown.lines) drawLines(u, look, marks);
  drawWindows(u, look, marks);
  ctx.strokeStyle = colour("axis");
  ctx.lineWidth = 1;
  ctx.strokeRect(bbox.left + 0.5, bbox.top + 0.5, bbox.width - 1, bbox.height - 1);
  ctx.restore();
}

function across(u, x) {
  return u.valToPos(x, "x", true);
}

function stripe(u, low, high, fill, least = 0, height = u.bbox.height) {
  const { ctx, bbox } = u;
  let left = across(u, low), right = across(u, high);
  if (right - left < scaled(least)) {
    const middle = (left + right) / 2;
    left = middle - scaled(least) / 2;
    right = middle + scaled(least) / 2;
  }
  if (right < bbox.left || left > bbox.left + bbox.width) return;
  ctx.fillStyle = fill;
  ctx.fillRect(left, bbox.top, right - left, height);
}

/** Pixels first to last − 1, half a pixel wider on both sides; those that are only flagged, by a bar at the top. */
function maskedStripe(u, look, first, last, reason) {
  const { wave } = look;
  const end = wave.length - 1;
  if (end < 1 || first > end) return;
  const low = (wave[Math.max(0, first - 1)] + wave[first]) / 2;
  const high = (wave[Math.min(end, last - 1)] + wave[Math.min(end, last)]) / 2;
  stripe(u, low, high, colour("bad"), 1, reason.startsWith("flagged") ? scaled(4) : u.bbox.height);
}

/** ±1σ around the flux, one rectangle a pixel column: cheap at any number of points. */
function errorBand(u, look) {
  const { ctx, bbox } = u;
  const [first, last] = look.within(u.scales.x.min, u.scales.x.max);
  ctx.fillStyle = colour("sigma");
  ctx.beginPath();
  let column = null, low = 0, high = 0, right = 0;
  const flush = () => {
    if (column !== null) ctx.rect(column, high, Math.max(1, right - column), Math.max(1, low - high));
  };
  for (let i = Math.max(0, first - 1); i < Math.min(look.wave.length, last + 1); i++) {
    const f = look.flux[i], s = look.sigma[i];
    if (!Number.isFinite(f) || !Number.isFinite(s) || !look.good[i]) continue;
    const x = Math.floor(across(u, look.wave[i]));
    const next = i + 1 < look.wave.length ? Math.floor(across(u, look.wave[i + 1])) : x + 1;
    const down = u.valToPos(f - s, "y", true), up = u.valToPos(f + s, "y", true);
    if (x === column) {
      low = Math.max(low, down);
      high = Math.min(high, up);
      right = Math.max(right, next);
    } else {
      flush();
      [column, low, high, right] = [x, down, up, Math.min(next, x + scaled(12))];
    }
    if (x > bbox.left + bbox.width) break;
  }
  flush();
  ctx.fill();
}

function drawAirNames(u, look) {
  const { ctx, bbox } = u;
  ctx.fillStyle = colour("dim");
  ctx.textAlign = "center";
  for (const [name, low, high] of TELLURIC_AIR) {
    const left = Math.max(across(u, look.sky(low)), bbox.left);
    const right = Math.min(across(u, look.sky(high)), bbox.left + bbox.width);
    const label = `⊕ ${name}`;
    if (right - left > ctx.measureText(label).width) ctx.fillText(label, (left + right) / 2, bbox.top + bbox.height - scaled(24));
    else if (right - left > scaled(10)) ctx.fillText("⊕", (left + right) / 2, bbox.top + bbox.height - scaled(24));
  }
  ctx.strokeStyle = colour("dim");
  ctx.lineWidth = scaled(1.5);
  ctx.beginPath();
  for (const [, air] of SKY_AIR) {
    const x = across(u, look.sky(air));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.moveTo(x, bbox.top + bbox.height);
    ctx.lineTo(x, bbox.top + bbox.height - scaled(8));
  }
  ctx.stroke();
  for (const join of look.spectrum.joins ?? []) {
    const x = (across(u, look.fromObserved(join[0])) + across(u, look.fromObserved(join[1]))) / 2;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.fillText(`join: ${join[2] || "arms"}`, x, bbox.top + bbox.height - scaled(38));
  }
}

/** More lines than this in view are drawn as short strokes at the top: dozens would hide the spectrum. */
const MOST_WHOLE = 10;

/** Lines of the class with names in rows above the frame, the task's own first, then short names; a name without room keeps its line. */
function drawLines(u, look, marks) {
  const { ctx, bbox } = u;
  const right = bbox.left + bbox.width, foot = bbox.top + bbox.height;
  for (const band of marks.bands) {
    const [from, to] = [look.line(band.low), look.line(band.high)].map((x) => Math.min(Math.max(across(u, x), bbox.left), right));
    ctx.fillStyle = colour("mark");
    if (to > from) ctx.fillRect(from, bbox.top + scaled(3), to - from, scaled(4));
  }
  const heads = marks.bands.map((band) => ({ name: band.name, wave: band.head ?? band.low, kind: "band", own: true }));
  const inside = [...marks.lines, ...heads].map((line) => ({ ...line, x: across(u, look.line(line.wave)) })).filter(({ x }) => x >= bbox.left && x <= right);
  inside.sort((a, b) => (b.own === true) - (a.own === true) || a.name.length - b.name.length || a.x - b.x);
  const rows = Array.from({ length: Math.max(1, Math.floor((bbox.top - scaled(2)) / scaled(14))) }, () => []);
  const end = inside.length > MOST_WHOLE ? bbox.top + scaled(16) : foot;
  for (const { name, kind, x } of inside) {
    const half = ctx.measureText(name).width / 2 + scaled(3);
    const middle = Math.min(Math.max(x, scaled(4) + half), u.ctx.canvas.width - half);
    const row = rows.findIndex((taken) => taken.every(([low, high]) => middle + half <= low || middle - half >= high));
    const tone = colour(kind === "emission" || kind === "absorption" ? kind : "mark");
    ctx.strokeStyle = tone;
    ctx.lineWidth = scaled(1);
    ctx.globalAlpha = row < 0 ? 0.45 : 0.8;
    ctx.setLineDash(end === foot ? [scaled(3), scaled(4)] : []);
    ctx.beginPath();
    ctx.moveTo(x, row < 0 ? bbox.top : bbox.top - scaled(3));
    ctx.lineTo(x, end);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
    if (row < 0) continue;
    rows[row].push([middle - half, middle + half]);
    ctx.fillStyle = tone;
    ctx.fillText(name, middle, bbox.top - scaled(10) - row * scaled(14));
  }
}

/** The agent's windows as numbered brackets along the bottom. */
function drawWindows(u, look, marks) {
  const { ctx, bbox } = u;
  ctx.textAlign = "center";
  marks.windows.forEach((window, i) => {
    const [left, right] = window.map((x) => across(u, x));
    if (right < bbox.left || left > bbox.left + bbox.width) return;
    const active = i === marks.active;
    const from = Math.max(left, bbox.left), to = Math.min(right, bbox.left + bbox.width);
    const y = bbox.top + bbox.height - scaled(5);
    ctx.fillStyle = colour(active ? "accent" : "agent");
    ctx.globalAlpha = active ? 1 : 0.7;
    ctx.fillRect(from, y, Math.max(2, to - from), scaled(active ? 5 : 4));
    if (to - from > scaled(12)) ctx.fillText(String(i + 1), (from + to) / 2, y - scaled(8));
    ctx.globalAlpha = 1;
  });
}
