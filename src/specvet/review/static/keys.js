// The keys: one table for what they do, for the help and for the listener. Keys mean nothing while somebody types.

/** Groups of [keys as shown, what they do, [[key, action], …]]; `key` as in KeyboardEvent.key, lower case. */
export const KEYS = [
  ["Decide and go on", [
    ["Y", "yes, it is one", [["y", "yes"]]],
    ["N", "no, it is not", [["n", "no"]]],
    ["U", "unsure", [["u", "unsure"]]],
    ["0 1 2 3 4", "quality: 4 two secure features, 3 one, 2 one of unsure kind, 1 a signal of unknown kind, 0 none",
      [["0", "quality0"], ["1", "quality1"], ["2", "quality2"], ["3", "quality3"], ["4", "quality4"]]],
    ["F", "flag", [["f", "flag"]]],
    ["C", "comment (Esc leaves the field)", [["c", "comment"]]],
    ["Ctrl+Z", "undo your last decision", [["ctrl+z", "undo"]]],
  ]],
  ["Walk", [
    ["Space", "next, without a decision", [[" ", "next"]]],
    ["B  Shift+Space", "back", [["b", "back"], ["shift+ ", "back"]]],
    ["Q", "queue: order and filters", [["q", "queue"]]],
    ["X", "grid of 24", [["x", "grid"]]],
    ["G", "links for this position", [["g", "links"]]],
    ["I", "all that the file says", [["i", "more"]]],
    ["T", "the task: what counts", [["t", "guide"]]],
  ]],
  ["Look", [
    ["[ ]", "the agent's windows, else the key windows", [["[", "earlierWindow"], ["]", "laterWindow"]]],
    [", .", "earlier, later epoch of the same star", [[",", "earlierEpoch"], [".", "laterEpoch"]]],
    ["O", "stack the epochs", [["o", "stack"]]],
    ["R", "whole spectrum", [["r", "reset"]]],
    ["← →", "move", [["arrowleft", "left"], ["arrowright", "right"]]],
    ["+ −", "closer, wider", [["+", "closer"], ["=", "closer"], ["-", "wider"]]],
    ["S D", "smooth more, less", [["s", "smoother"], ["d", "sharper"]]],
    ["W", "rest frame or as observed", [["w", "frame"]]],
    ["V", "velocity (then ← →)", [["v", "velocity"]]],
    ["Z", "redshift (then ← →)", [["z", "redshift"]]],
    ["L", "lines and bands", [["l", "lines"]]],
    ["E", "1σ errors", [["e", "band"]]],
    ["M", "masks, telluric bands, joins", [["m", "mask"]]],
    ["A", "clip spikes, or show every pixel", [["a", "clip"]]],
  ]],
  ["Page", [
    ["?", "this help", [["?", "help"]]],
    ["Esc", "leave a field, close", []],
  ]],
];

const ACTIONS = new Map(KEYS.flatMap(([, rows]) => rows.flatMap(([, , keys]) => keys)));

/** Held down, these do it again and again; the others once a press. */
const REPEATING = new Set(["left", "right", "closer", "wider", "smoother", "sharper"]);

const TYPING = new Set(["text", "search", "number", "email", "url", "tel", "password", "date", "time"]);

/** Whether what is pressed belongs to a field, or to an input method that composes (as for Chinese). */
export function isTyping(event) {
  if (event.isComposing || event.keyCode === 229) return true;
  const at = event.target;
  if (!(at instanceof HTMLElement)) return false;
  if (at.isContentEditable || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement) return true;
  return at instanceof HTMLInputElement && TYPING.has(at.type);
}

/** The action of a key event, or null where it has none here. */
export function actionOf(event) {
  if (typeof event.key !== "string") return null; // as when a browser fills in a field
  if (isTyping(event) || event.altKey || event.defaultPrevented) return null;
  const control = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  const name = control ? `ctrl+${key}` : event.shiftKey && key === " " ? "shift+ " : key;
  const action = ACTIONS.get(name) ?? null;
  if (action === null || (event.repeat && !REPEATING.has(action))) return null;
  return ownedBy(event.target, key) ? null : action;
}

/** Whether the element with the focus uses that key itself: Space on a button, arrows on a slider. */
function ownedBy(at, key) {
  if (!(at instanceof HTMLElement)) return false;
  if (key === " ") return at.matches("button, summary, a, input");
  if (key.startsWith("arrow")) return at.matches("input");
  return false;
}

/**
 * Calls `actions[name]()` for each key that has one. While a dialog is open only its own keys and `?` count.
 * Esc leaves a field: the focus returns to the page.
 */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]") && !event.isComposing) {
      document.activeElement?.blur();
      return;
    }
    const action = actionOf(event);
    if (action === null || !actions[action]) return;
    if (document.querySelector("dialog[open]") && action !== "help") return;
    event.preventDefault();
    actions[action]();
  });
  // What was clicked with the mouse gives the focus back, so that Space goes on to the next spectrum.
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button, summary, input[type=checkbox], input[type=radio]") : null;
    if (button && event.detail > 0 && !button.closest("dialog")) button.blur();
  });
}
