// The review page: wires the walk through the queue, the viewer, the form, the agent's panel, the grid and the keys.

import * as api from "./api.js";
import { markStep, showAgent, showDecisions } from "./agent.js";
import { wear, wornTheme } from "./colours.js";
import { announce, byId, element, fill } from "./dom.js";
import { Form, setLikelier } from "./form.js";
import { Grid } from "./grid.js";
import { Epochs, timeOf } from "./epochs.js";
import { listen } from "./keys.js";
import { openGuide, openHelp, openLinks, openMore, showPeople } from "./panels.js";
import { FIRST_FILTERS, openQueue } from "./queue.js";
import { MOST_STACKED } from "./stack.js";
import { showStar } from "./star.js";
import { Viewer, titleOf } from "./viewer.js";
import { Walk } from "./walk.js";

const THEMES = ["auto", "light", "dark"];

let session = null;
let filters = { ...FIRST_FILTERS };
let busy = false;
let counting = 0;

const form = new Form();
const viewer = new Viewer({ window: (i) => markStep(i) });
const walk = new Walk(show);
const epochs = new Epochs({ go: (item) => visit(item), stack: () => stack() });
const grid = new Grid({ asked: () => ({ task: walk.task, ...filters }), decide: decideInGrid, open: openFromGrid });

const task = () => session.tasks.find((t) => t.key === walk.task);

/** Runs an action that asks the server; a failure is told and changes nothing. */
function guarded(action) {
  return async (...given) => {
    try {
      await action(...given);
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      announce(`${error.message}${error.remedy ? `; ${error.remedy}` : ""}`, "problem");
    }
  };
}

// One spectrum -----------------------------------------------------------------------------------------------------

function show(entry) {
  if (!entry) {
    showEnd();
    return;
  }
  const kept = form.keep();
  form.open(`${walk.task} ${entry.item}`);
  const windows = showAgent(entry, task(), { go: (i) => viewer.go(i) });
  viewer.show(entry, task(), windows);
  showDecisions(null, session.reviewer);
  remember(entry.item);
  const told = entry.spectrum ? titleOf(entry) : `${titleOf(entry)} cannot be read`;
  if (kept) announce(`${told}; what you wrote on the one before is kept until you decide it`);
  else announce(told, "quiet");
  showObject(entry);
  recall(entry.item);
  document.body.dataset.item = entry.item;
}

/** What was decided on a spectrum before: mine fills the form. */
async function recall(item) {
  const at = walk.task;
  const history = await api.history(item, at).catch(() => null);
  if (walk.item !== item || walk.task !== at || !walk.entry) return;
  form.recall(showDecisions(history, session.reviewer));
  if (!epochs.epochs.length) return;
  // What was decided since it was fetched alters the verdict on the object.
  const object = await api.object(item, at).catch(() => null);
  if (object && walk.item === item && walk.task === at && walk.entry) epochs.show(object, item);
}

// Epochs of one star -------------------------------------------------------------------------------------------------

async function showObject(entry) {
  epochs.show(null, entry.item);
  showStar(null);
  const object = await entry.object;
  if (walk.entry !== entry || !object) return;
  epochs.show(object, entry.item);
  showStar(object.match);
  await stackNow();
}

const visit = guarded((item) => walk.visit(item));

const stepEpoch = (step) => () => {
  const item = epochs.step(step);
  if (item !== null) visit(item);
  else announce(epochs.epochs.length ? `no ${step > 0 ? "later" : "earlier"} epoch` : "this star has one spectrum here");
};

function stack() {
  if (!epochs.epochs.length) announce("this star has one spectrum here");
  else announce(epochs.toggle() ? `${epochs.epochs.length} epochs over each other, each brought to the same level` : "one epoch alone");
  stackNow();
}

/** Draws the other epochs with the one that is on, or takes them away. */
async function stackNow() {
  const { entry } = walk;
  const others = epochs.stacked ? epochs.others.slice(0, MOST_STACKED) : [];
  const got = await Promise.all(others.map((epoch) => walk.ahead.get(epoch.item, walk.task)));
  if (walk.entry !== entry || !entry) return;
  const drawn = others.map((epoch, k) => ({ spectrum: got[k].spectrum, tone: epoch.tone, label: timeOf(epoch.mjd) }));
  const own = epochs.epochs.find((epoch) => epoch.item === entry.item);
  viewer.stack(drawn.filter(({ spectrum }) => spectrum), own ? timeOf(own.mjd) : "");
}

function showEnd() {
  form.keep();
  form.open("");
  delete document.body.dataset.item;
  viewer.clear("The end of this queue. Q shows the filters, B goes back.");
  showAgent(null, task(), {});
  showDecisions(null, session.reviewer);
  epochs.show(null, null);
  showStar(null);
  announce("The end of this queue");
}

async function decide(verdict) {
  if (busy || !walk.entry) return;
  const { item, entry } = walk;
  if (!walk.settled) {
    announce("not saved: the spectrum you went to is still coming; decide when it is shown", "problem");
    return;
  }
  busy = true;
  const shown = { ...viewer.record(), agent: entry.evidence?.verdict ?? null, agent_hidden: entry.hidden, view: "single" };
  try {
    await walk.decide({ verdict, ...form.read(), z: viewer.redshift(), shown });
    form.done();
    countSoon();
    await walk.next();
    announce(`${verdict} saved. Now ${byId("object-id").textContent || byId("no-plot").textContent}`);
    if (entry.hidden) reveal(item, verdict, titleOf(entry));
  } catch (error) {
    if (!(error instanceof api.ApiError)) throw error;
    announce(`not saved: ${error.message}${error.remedy ? `; ${error.remedy}` : ""}`, "problem");
  } finally {
    busy = false;
  }
}

/** Blind mode: what the agent had said of the spectrum that has just been decided. */
async function reveal(item, verdict, id) {
  const { evidence } = await walk.ahead.get(item, walk.task);
  if (evidence?.verdict) announce(`${id}: ${verdict} saved; the agent had said ${evidence.verdict}`);
}

const undo = guarded(async () => {
  if (busy) return;
  busy = true;
  try {
    if (!byId("grid").hidden) await toggleGrid();
    const { undone } = await walk.undo();
    form.bringBack(undone);
    if (undone.z !== null) viewer.set({ z: undone.z, velocity: 0 });
    countSoon();
    announce(`${undone.verdict} taken back`);
  } finally {
    busy = false;
  }
});

// The queue --------------------------------------------------------------------------------------------------------

/** Counting can wait until the reviewer pauses; the server then has the next spectrum to see to. */
function countSoon() {
  clearTimeout(counting);
  counting = setTimeout(refreshCounts, 300);
}

/** How far this reviewer is; where the server does not answer, whoever asks it next is told. */
async function refreshCounts() {
  const found = await api.queue({ task: walk.task, limit: 1 }).catch(() => null);
  if (!found) return;
  byId("progress").max = Math.max(1, session.items);
  byId("progress").value = found.reviewed;
  byId("count").textContent = `${found.reviewed.toLocaleString("en")} / ${session.items.toLocaleString("en")}`;
}

async function begin(key, item = null) {
  byId("task").value = key;
  byId("question").textContent = task_of(key).question;
  setLikelier(task_of(key).likelier ?? []);
  walk.task = key;
  await Promise.all([walk.begin(key, filters, item), refreshCounts()]);
  if (!byId("grid").hidden) await grid.page(0);
}

const task_of = (key) => session.tasks.find((t) => t.key === key) ?? session.tasks[0];

function remember(item) {
  history.replaceState(null, "", `#${new URLSearchParams({ task: walk.task, item })}`);
}

const toggleGrid = guarded(async () => {
  const on = byId("grid").hidden;
  byId("grid").hidden = !on;
  byId("single").hidden = on;
  byId("open-grid").setAttribute("aria-pressed", String(on));
  if (on) await grid.page(0);
  else viewer.redraw();
});

async function openFromGrid(item) {
  await toggleGrid();
  await guarded(() => walk.open(item))();
}

async function decideInGrid(item, verdict) {
  const shown = { view: "grid", agent_hidden: session.blind };
  await api.decide({ key: api.newKey(), item, task: walk.task, verdict, quality: null, likelier: "", z: null, issues: "", comment: "", flagged: false, ms: 0, shown });
  walk.ahead.forget(item, walk.task);
  countSoon();
}

// The page ---------------------------------------------------------------------------------------------------------

function askName(problem = "") {
  fill(byId("names"), session.reviewers.map((r) => element("option", { value: typeof r === "string" ? r : r.name })));
  byId("name").value = session.reviewer ?? "";
  byId("name-problem").textContent = problem;
  byId("name-cancel").hidden = !session.reviewer;
  fill(byId("people"));
  if (session.reviewer) guarded(async () => showPeople(await api.agreement(walk.task), task().label))();
  if (!byId("ask-name").open) byId("ask-name").showModal();
}

function wire() {
  const focus = (id) => () => byId(id).focus();
  const open = {
    queue: guarded(() => openQueue({
      session, task: walk.task, filters, item: walk.item,
      choose: guarded(async (chosen, item = null) => {
        filters = chosen;
        await begin(walk.task, item);
      }),
    })),
    help: () => openHelp(session.versions),
    links: () => openLinks(walk.entry?.spectrum),
    more: () => openMore(walk.entry?.spectrum),
    guide: () => openGuide(task()),
  };
  const single = (action) => (...given) => byId("single").hidden || action(...given);
  const quality = (value) => single(() => announce(form.quality(value) ? `quality ${value}` : "no quality"));
  const actions = {
    yes: single(() => decide("YES")), no: single(() => decide("NO")), unsure: single(() => decide("UNSURE")),
    quality0: quality(0), quality1: quality(1), quality2: quality(2), quality3: quality(3), quality4: quality(4),
    flag: single(() => announce(form.flag() ? "flagged" : "not flagged")), comment: single(focus("comment")), undo,
    next: single(guarded(() => walk.next())), back: single(guarded(async () => {
      if ((await walk.back()) === false) announce("Nothing before this in the queue; Q changes what it shows");
    })),
    queue: open.queue, grid: toggleGrid, links: single(open.links), more: single(open.more), help: open.help, guide: open.guide,
    earlierWindow: single(() => viewer.step(-1)), laterWindow: single(() => viewer.step(1)), reset: single(() => viewer.reset()),
    left: single(() => viewer.plot.pan(-0.2)), right: single(() => viewer.plot.pan(0.2)),
    closer: single(() => viewer.plot.scale(0.7)), wider: single(() => viewer.plot.scale(1 / 0.7)),
    smoother: single(() => viewer.smooth(1)), sharper: single(() => viewer.smooth(-1)),
    frame: single(() => viewer.turn()), velocity: single(focus("velocity")), redshift: single(focus("z-slider")),
    lines: single(() => viewer.toggle("lines")), band: single(() => viewer.toggle("band")), mask: single(() => viewer.toggle("mask")),
    clip: single(() => viewer.clip()),
    earlierEpoch: single(stepEpoch(-1)), laterEpoch: single(stepEpoch(1)), stack: single(stack),
  };
  listen(actions);
  const clicks = { back: "back", next: "next", undo: "undo", "open-queue": "queue", "open-grid": "grid", "open-help": "help", "open-links": "links", "open-more": "more", question: "guide" };
  for (const [id, action] of Object.entries(clicks)) byId(id).addEventListener("click", () => actions[action]());
  for (const button of document.querySelectorAll("[data-verdict]")) button.addEventListener("click", () => decide(button.dataset.verdict));
  byId("task").addEventListener("change", guarded(async (event) => {
    event.target.blur();
    await begin(event.target.value);
  }));
  byId("who").addEventListener("click", () => askName());
  byId("theme").addEventListener("click", () => {
    wear(THEMES[(THEMES.indexOf(wornTheme()) + 1) % THEMES.length]);
    announce(`colours: ${wornTheme()}`);
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  byId("name-cancel").addEventListener("click", () => byId("ask-name").close());
  // Nobody decides without a name.
  byId("ask-name").addEventListener("cancel", (event) => session.reviewer || event.preventDefault());
  byId("name-form").addEventListener("submit", (event) => {
    event.preventDefault();
    introduce(byId("name").value.trim());
  });
}

function redraw() {
  viewer.redraw();
  grid.redraw();
}

async function introduce(name) {
  if (!name) return;
  try {
    session = await api.introduce(name);
  } catch (error) {
    askName(`${error.message}${error.remedy ? `; ${error.remedy}` : ""}`);
    return;
  }
  byId("ask-name").close();
  await guarded(start)();
}

async function start() {
  document.title = `${session.title} · specvet review`;
  byId("title").textContent = session.title;
  byId("title").title = session.title;
  byId("who").textContent = session.reviewer ?? "no name";
  byId("notices").hidden = !session.notices?.length;
  byId("notices").classList.toggle("readonly", session.readonly);
  byId("notices").textContent = (session.notices ?? []).join(" · ");
  fill(byId("task"), session.tasks.map((t) => element("option", { value: t.key }, t.label)));
  if (!session.reviewer) {
    askName();
    return;
  }
  const asked = new URLSearchParams(location.hash.slice(1));
  await begin(task_of(asked.get("task")).key, asked.get("item"));
  document.body.dataset.ready = "yes";
}

wear(wornTheme());
wire();
guarded(async () => {
  session = await api.session();
  await start();
})();
