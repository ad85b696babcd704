// The walk through the queue: which spectrum is on, which come next, which were passed; and decisions on the way.

import * as api from "./api.js";
import { Ahead } from "./ahead.js";

/** So many spectra are fetched before they are needed. */
const PREFETCH = 5;

const PAINTED_MS = 50;

export class Walk {
  /** @param {(entry: object | null) => void} show  told each spectrum to show; null at the end of the queue */
  constructor(show) {
    this.show = show;
    this.ahead = new Ahead();
    this.task = "";
    this.filters = {};
    this.passed = [];
    this.place = -1;
    this.coming = [];
    this.entry = null;
    this.tail = "";
    this.aside = null;
    this.turn = 0;
    this.shownAt = 0;
    this.attempt = null;
    this.refill = null;
    this.leaving = 0;
  }

  get item() {
    return this.aside ?? this.passed[this.place] ?? null;
  }

  /** Whether the spectrum that is shown is the one the reviewer is at, and has not asked to leave. */
  get settled() {
    return this.leaving === 0 && this.entry !== null && this.entry.item === this.item;
  }

  /** Begins anew with a task, an order and filters; at `item` where one is named. */
  async begin(task, filters, item = null) {
    Object.assign(this, { task, filters, passed: [], place: -1, coming: [], refill: null, entry: null, aside: null, tail: "" });
    if (item !== null) return this.open(item);
    await this.#more();
    return this.next();
  }

  /** Shows one item of the queue; what follows is what follows it there. */
  async open(item) {
    this.aside = null;
    this.tail = item;
    this.passed = [...this.passed.slice(0, this.place + 1), item];
    this.place = this.passed.length - 1;
    this.coming = [];
    this.refill = null;
    await this.#present();
  }

  /** Shows an item beside the way, as another epoch of the same star; next and back return to the way. */
  async visit(item) {
    this.aside = item === this.passed[this.place] ? null : item;
    await this.#present();
  }

  async next() {
    if (this.aside !== null) {
      this.aside = null;
      return this.#present();
    }
    if (this.place + 1 < this.passed.length) {
      this.place += 1;
      return this.#present();
    }
    if (!this.coming.length) await this.#asking(this.#more());
    const item = this.coming.shift();
    if (item === undefined) {
      this.entry = null;
      this.turn += 1;
      this.show(null);
      return undefined;
    }
    this.passed.push(item);
    this.tail = item;
    this.place = this.passed.length - 1;
    return this.#present();
  }

  /** The spectrum before; false where there is none. */
  async back() {
    if (this.aside !== null) {
      this.aside = null;
      return this.#present();
    }
    if (this.entry === null && this.item !== null) return this.#present();
    if (this.place > 0) {
      this.place -= 1;
      return this.#present();
    }
    if (this.item === null) return false;
    const { items } = await this.#asking(api.next({ ...this.#asked(), after: this.item, back: 1, n: 1 }));
    if (!items.length) return false;
    this.passed.unshift(items[0]);
    this.place = 0;
    return this.#present();
  }

  /**
   * Sends a decision and waits until it is on disk. A decision that is sent again, since no answer came, carries the
   * key of before, so that it counts once.
   */
  async decide(said) {
    const body = { item: this.item, task: this.task, ...said };
    const words = JSON.stringify({ ...body, ms: 0, shown: null });
    if (this.attempt?.words !== words) this.attempt = { words, key: api.newKey() };
    const reply = await api.decide({ key: this.attempt.key, ...body, ms: Math.round(performance.now() - this.shownAt) });
    this.attempt = null;
    this.ahead.forget(body.item, this.task);
    return reply;
  }

  /** Takes back this reviewer's newest decision of the task and shows its spectrum. */
  async undo() {
    const reply = await api.undo(this.task);
    this.ahead.forget(reply.undone.item, this.task);
    const place = this.passed.lastIndexOf(reply.undone.item);
    if (place >= 0) {
      this.aside = null;
      this.place = place;
      await this.#present();
    } else if (this.place >= 0) {
      await this.visit(reply.undone.item);
    } else {
      await this.open(reply.undone.item);
    }
    return reply;
  }

  /** Where to go is not known yet, and where one is has been left. */
  async #asking(request) {
    this.leaving += 1;
    try {
      return await request;
    } finally {
      this.leaving -= 1;
    }
  }

  #asked() {
    return { task: this.task, ...this.filters };
  }

  async #more() {
    if (!this.refill) {
      const after = this.coming.at(-1) ?? this.tail;
      const turn = [this.task, this.filters];
      this.refill = api.next({ ...this.#asked(), after, n: PREFETCH + 1 }).then(({ items }) => {
        if (turn[0] !== this.task || turn[1] !== this.filters) return;
        const known = new Set([...this.coming, this.item]);
        this.coming.push(...items.filter((item) => !known.has(item)));
      }).finally(() => {
        this.refill = null;
      });
    }
    return this.refill;
  }

  async #present() {
    const turn = ++this.turn;
    const entry = await this.ahead.get(this.item, this.task);
    if (turn !== this.turn) return;
    this.entry = entry;
    this.shownAt = performance.now();
    this.show(entry);
    // First the spectrum is painted, then the next ones are asked for.
    setTimeout(() => this.#fetchAhead(), PAINTED_MS);
  }

  async #fetchAhead() {
    try {
      if (this.coming.length < PREFETCH) await this.#more();
    } catch {
      return; // Told when the spectrum is wanted.
    }
    for (const item of this.coming.slice(0, PREFETCH)) this.ahead.get(item, this.task);
  }
}
