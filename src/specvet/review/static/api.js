// What the page asks of its server. Every failure is an ApiError that says what went wrong and what to do.

import { decodeSpectrum, decodeThumbnails } from "./payload.js";

export class ApiError extends Error {
  constructor(message, remedy, status, about = {}) {
    super(message);
    this.remedy = remedy;
    this.status = status;
    this.about = about;
  }
}

let csrf = "";

async function ask(path, options = {}) {
  let reply;
  try {
    reply = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new ApiError("the server does not answer", "see whether specvet review still runs, then try again", 0);
  }
  if (reply.ok) return reply;
  const told = await reply.json().catch(() => ({}));
  throw new ApiError(told.error ?? `the server said ${reply.status}`, told.do ?? "", reply.status, told);
}

const json = async (path) => (await ask(path)).json();
const bytes = async (path) => (await ask(path)).arrayBuffer();

async function post(path, body) {
  const reply = await ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    body: JSON.stringify(body),
  });
  return reply.json();
}

export function query(fields) {
  const kept = Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return new URLSearchParams(kept).toString();
}

export async function session() {
  const found = await json("/api/session");
  csrf = found.csrf;
  return found;
}

/** Says who reviews; the reply is the session anew. */
export async function introduce(reviewer) {
  await post("/api/session", { reviewer });
  return session();
}

export const queue = (fields) => json(`/api/queue?${query(fields)}`);
export const next = (fields) => json(`/api/next?${query(fields)}`);
export const evidence = (item, task) => json(`/api/evidence/${encodeURIComponent(item)}?${query({ task })}`);
export const history = (item, task) => json(`/api/items/${encodeURIComponent(item)}?${query({ task })}`);
export const object = (item, task) => json(`/api/object/${encodeURIComponent(item)}?${query({ task })}`);
export const agreement = (task) => json(`/api/agreement?${query({ task })}`);
export const decide = (event) => post("/api/decisions", event);
export const undo = (task) => post("/api/undo", { key: newKey(), task });

export async function spectrum(item) {
  return decodeSpectrum(await bytes(`/api/spectrum/${encodeURIComponent(item)}`));
}

export async function thumbnails(items) {
  return decodeThumbnails(await bytes(`/api/thumbnails?${query({ items: items.join(",") })}`));
}

/** An idempotency key: a decision that is sent twice counts once. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
