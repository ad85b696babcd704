// Twenty-four spectra at once: quick to look through, by mouse or by keys.

import * as api from "./api.js";
import { announce, byId, element, fill, simulatedMark } from "./dom.js";
import { sketch, wholeFrame } from "./sketch.js";

const TILES = 24;

/** Names of one plate begin alike, so their ends tell them apart. */
const ending = (id) => (id.length > 18 ? `…${id.slice(-17)}` : id);

const VERDICTS = { y: "YES", n: "NO", u: "UNSURE" };

export class Grid {
  /** @param {{asked: () => object, decide: (item, verdict) => Promise, open: (item) => void, leave: () => void}} told */
  constructor(told) {
    this.told = told;
    this.offset = 0;
    this.rows = [];
    this.total = 0;
    byId("grid-back").addEventListener("click", () => this.page(this.offset - TILES));
    byId("grid-next").addEventListener("click", () => this.page(this.offset + TILES));
    byId("grid-reject").addEventListener("click", () => this.#rejectRest());
    byId("tiles").addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(byId("tiles"));
  }

  async page(offset) {
    this.offset = Math.max(0, offset);
    let reply = await api.queue({ ...this.told.asked(), offset: this.offset, limit: TILES });
    if (!reply.rows.length && this.offset > 0) {
      // Decided spectra have left the queue: its last page lies further up now.
      this.offset = Math.max(0, Math.floor((reply.total - 1) / TILES) * TILES);
      reply = await api.queue({ ...this.told.asked(), offset: this.offset, limit: TILES });
    }
    this.total = reply.total;
    this.rows = reply.rows.map((row) => Object.fromEntries(reply.columns.map((name, i) => [name, row[i]])));
    fill(byId("tiles"), this.rows.map((row) => this.#tile(row)));
    this.#said();
    byId("tiles").firstElementChild?.focus();
    const drawn = this.rows.length ? await api.thumbnails(this.rows.map((row) => row.item)) : [];
    this.pictures = new Map(drawn.map((picture) => [picture.item, picture]));
    this.#draw();
  }

  #tile(row) {
    const snr = row.snr === null ? "" : `S/N ${Number(row.snr).toFixed(0)}`;
    const words = [row.id, row.simulated ? "SIMULATED" : "", snr, row.verdict ? `agent ${row.verdict}` : "", row.mine ? `you ${row.mine}` : "not decided"];
    return element(
      "button",
      { type: "button", class: "tile", "data-item": row.item, "data-mine": row.mine ?? "", "aria-label": words.filter(Boolean).join(", "),
        onclick: () => this.told.open(row.item) },
      element("span", { class: "head" }, element("span", { class: "id", title: row.id }, ending(row.id)), element("span", {}, snr),
        row.verdict ? element("span", { class: `chip ${row.verdict}` }, row.verdict.replace("_", " ")) : null),
      element("canvas", { "aria-hidden": "true" }),
      simulatedMark(row.simulated),
    );
  }

  #draw() {
    if (byId("grid").hidden || !this.pictures) return;
    for (const tile of byId("tiles").children) {
      const picture = this.pictures.get(tile.dataset.item);
      // A file that says it only when it is read.
      if (picture?.simulated && !tile.querySelector(".simulated")) tile.append(simulatedMark(true));
      const frame = picture && wholeFrame(picture.wave, picture.flux);
      if (frame) sketch(tile.querySelector("canvas"), picture.wave, picture.flux, frame);
      else if (picture) tile.querySelector(".id").textContent = `${picture.id ?? tile.dataset.item}: ${picture.error ?? "no good pixels"}`;
    }
  }

  redraw() {
    this.#draw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const tiles = Array.from(byId("tiles").children);
    const at = tiles.indexOf(document.activeElement);
    if (at < 0) return;
    const columns = getComputedStyle(byId("tiles")).gridTemplateColumns.split(" ").length;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    const verdict = VERDICTS[event.key.toLowerCase()];
    if (step) tiles[at + step]?.focus();
    else if (event.key === "PageDown") byId("grid-next").click();
    else if (event.key === "PageUp") byId("grid-back").click();
    else if (verdict && !event.repeat) this.#decide(tiles[at], verdict).then((done) => done && (tiles[at + 1] ?? tiles[at]).focus());
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  async #decide(tile, verdict) {
    const row = this.rows.find((r) => r.item === tile.dataset.item);
    try {
      await this.told.decide(row.item, verdict);
    } catch (error) {
      announce(`not saved: ${error.message}; ${error.remedy}`, "problem");
      return false;
    }
    row.mine = verdict;
    tile.dataset.mine = verdict;
    tile.setAttribute("aria-label", `${row.id}, you ${verdict}`);
    announce(`${row.id}: ${verdict} saved`);
    this.#said();
    return true;
  }

  async #rejectRest() {
    for (const tile of Array.from(byId("tiles").children)) {
      const row = this.rows.find((r) => r.item === tile.dataset.item);
      if (!row.mine && !(await this.#decide(tile, "NO"))) return;
    }
    await this.page(this.offset + TILES);
  }

  #said() {
    const last = this.offset + this.rows.length;
    byId("grid-said").textContent = this.total ? `${this.offset + 1}–${last} of ${this.total.toLocaleString("en")}` : "nothing in this queue";
    byId("grid-back").disabled = this.offset === 0;
    byId("grid-next").disabled = last >= this.total;
    const left = this.rows.filter((row) => !row.mine).length;
    byId("grid-reject").textContent = `Reject the ${left} undecided here`;
    byId("grid-reject").disabled = left === 0;
  }
}
