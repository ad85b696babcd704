// Spectra and what the agent said of them, fetched before they are needed, so that the next one is there at once.

import * as api from "./api.js";

/** Entries kept: the next ones, and some that were passed, for going back. */
const KEPT = 40;

export class Ahead {
  constructor() {
    this.entries = new Map();
  }

  /** {item, spectrum | problem, evidence | hidden, object: Promise} of an item, for a task; never rejects. */
  get(item, task) {
    const key = `${task} ${item}`;
    const found = this.entries.get(key);
    if (found) {
      this.entries.delete(key);
      this.entries.set(key, found);
      return found;
    }
    const entry = load(item, task);
    this.entries.set(key, entry);
    entry.then((got) => {
      // What failed for want of a server is asked again; an unreadable file stays unreadable.
      if (got.problem && (got.problem.status === 0 || got.problem.status >= 500)) this.entries.delete(key);
    });
    for (const old of this.entries.keys()) {
      if (this.entries.size <= KEPT) break;
      this.entries.delete(old);
    }
    return entry;
  }

  /** Forgets what the agent said of an item: a decision may have uncovered it. */
  forget(item, task) {
    this.entries.delete(`${task} ${item}`);
  }
}

async function load(item, task) {
  // Nobody waits for the object: of a long list its spectra are grouped first.
  const object = api.object(item, task).catch(() => null);
  const [spectrum, evidence] = await Promise.allSettled([api.spectrum(item), api.evidence(item, task)]);
  return {
    item,
    spectrum: spectrum.status === "fulfilled" ? spectrum.value : null,
    problem: spectrum.status === "fulfilled" ? null : spectrum.reason,
    evidence: evidence.status === "fulfilled" ? evidence.value : null,
    object,
    hidden: evidence.status === "rejected" && evidence.reason.status === 403,
  };
}
