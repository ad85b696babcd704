// The queue: its order, its filters, and a list to choose from.

import * as api from "./api.js";
import { byId, element, fill, number, simulatedMark } from "./dom.js";

const SHOWN = 100;

const ORDERS = [["value", "most valuable first"], ["list", "as listed"], ["snr", "highest S/N first"], ["random", "random"], ["object", "object by object"]];

const WORDS = ["YES", "NO", "UNSURE", "NO_DATA", "FAILED", "ERROR"];

/** [name, label, choices or kind, whether it needs an agent]. */
const FILTERS = [
  ["order", "Order", ORDERS, false],
  ["verdict", "Agent says", WORDS, true],
  ["band", "Triage", ["accept", "look", "reject"], true],
  ["mine", "I said", ["YES", "NO", "UNSURE"], false],
  ["class", "Class", "text", false],
  ["survey", "Survey", "text", false],
  ["snr_min", "S/N from", "number", false],
  ["snr_max", "to", "number", false],
  ["text", "Text", "search", false],
  ["unreviewed", "not yet by me", "check", false],
  ["open", "by nobody", "check", false],
  ["assigned", "assigned to me", "check", false],
  ["flagged", "flagged", "check", false],
  ["disagreement", "disagreement", "check", false],
  ["several", "of several epochs", "check", false],
  ["third", "waits for a third look", "check", false],
];

export const FIRST_FILTERS = { order: "value", unreviewed: "1" };

/** Opens the dialog. `told`: {session, task, filters, item, choose(filters), open(item)}. */
export async function openQueue(told) {
  const dialog = byId("queue");
  const blind = told.session.blind, agent = Boolean(told.session.agent);
  const controls = FILTERS.filter(([, , , ofAgent]) => !ofAgent || (agent && !blind)).map((filter) => control(filter, told.filters));
  const list = element("div", { class: "scroll", tabIndex: 0, "aria-label": "Spectra of the queue" });
  const said = element("p", { role: "status" });
  const form = element("form", { id: "filters", class: "filters" }, controls);
  let offset = 0;
  const walk = (step) => {
    offset = Math.max(0, offset + step);
    refresh();
  };
  const before = element("button", { type: "button", onclick: () => walk(-SHOWN) }, "← Earlier");
  const after = element("button", { type: "button", onclick: () => walk(SHOWN) }, "Later →");
  const refresh = async () => {
    try {
      const reply = await api.queue({ task: told.task, ...read(form), offset, limit: SHOWN });
      const rows = reply.rows.map((row) => Object.fromEntries(reply.columns.map((name, i) => [name, row[i]])));
      said.textContent = reply.total
        ? `${(offset + 1).toLocaleString("en")}–${(offset + rows.length).toLocaleString("en")} of ${reply.total.toLocaleString("en")}`
        : "nothing fits these filters";
      before.disabled = offset === 0;
      after.disabled = offset + rows.length >= reply.total;
      fill(list, table(rows, told, dialog));
    } catch (error) {
      said.textContent = `${error.message}; ${error.remedy}`;
    }
  };
  form.addEventListener("change", () => {
    offset = 0;
    refresh();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    told.choose(read(form));
  });
  fill(
    dialog,
    element("h2", { id: "queue-title" }, "Queue"),
    form,
    said,
    list,
    element("div", { class: "closing" }, before, after,
      element("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      element("button", { type: "submit", form: "filters" }, "Begin with the first")),
  );
  dialog.showModal();
  await refresh();
}

function control([name, label, kind], filters) {
  const value = filters[name] ?? "";
  if (kind === "check") {
    return element("label", { class: "check" }, element("input", { type: "checkbox", name, value: "1", checked: value === "1" }), label);
  }
  if (Array.isArray(kind)) {
    const choices = kind.map((choice) => (Array.isArray(choice) ? choice : [choice, choice.replace("_", " ")]));
    const options = name === "order" ? choices : [["", "any"], ...choices];
    const select = element("select", { name }, options.map(([v, text]) => element("option", { value: v }, text)));
    select.value = value;
    return element("label", {}, label, select);
  }
  return element("label", {}, label, element("input", { type: kind, name, value, step: kind === "number" ? "any" : "", autocomplete: "off" }));
}

function read(form) {
  return Object.fromEntries([...new FormData(form)].filter(([, value]) => String(value).trim() !== ""));
}

function table(rows, told, dialog) {
  const agent = Boolean(told.session.agent);
  const head = ["id", "survey", "S/N", ...(agent ? ["agent", "p(yes)", "triage"] : []), "mine", "others", ""];
  return element("table", {},
    element("thead", {}, element("tr", {}, head.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, rows.map((row) => element("tr", { "aria-current": String(row.item === told.item) },
      element("td", { class: "id" }, element("button", { type: "button", onclick: () => {
        dialog.close();
        told.choose(read(dialog.querySelector("form")), row.item);
      } }, row.id || row.item), " ", simulatedMark(row.simulated)),
      element("td", {}, row.survey), element("td", {}, number(row.snr, 2)),
      agent ? [element("td", {}, row.verdict ?? "–"), element("td", {}, number(row.p, 2)), element("td", {}, row.band ?? "–")] : null,
      element("td", {}, row.mine ?? "–"), element("td", {}, others(row.others)), element("td", {}, row.flagged ? "⚑" : "")))),
  );
}

function others(found) {
  return Array.isArray(found) ? found.map((vote) => vote.verdict ?? vote).join(" ") : found ? String(found) : "–";
}
