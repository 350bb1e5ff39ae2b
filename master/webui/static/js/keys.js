// Keys: one for each action, two for a page (`g e`). Text fields and dialogs keep theirs.

/** @typedef {Record<string, (event: KeyboardEvent) => void>} Keys By the key, or two with a blank: `g e`. */

const TOGETHER_MS = 1000;
/** @type {Set<Keys>} */
const tables = new Set();
let prefix = "";
let prefixAt = 0;

/** Until the function that is returned is called. @param {Keys} keys */
export function bind(keys) {
  tables.add(keys);
  return () => void tables.delete(keys);
}

/** @param {EventTarget | null} target */
function takesText(target) {
  return target instanceof Element && target.closest("input, textarea, select, dialog, [contenteditable]") !== null;
}

/** @param {KeyboardEvent} event */
function press(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || takesText(event.target)) return;
  const presses = event.key === "Enter" || event.key === " ";
  if (presses && event.target instanceof Element && event.target.closest("a, button, summary")) return;
  const both = event.timeStamp - prefixAt < TOGETHER_MS ? `${prefix} ${event.key}` : event.key;
  for (const name of new Set([both, event.key])) {
    for (const keys of [...tables].reverse()) {
      const act = keys[name];
      if (act) {
        event.preventDefault();
        prefix = "";
        act(event);
        return;
      }
    }
  }
  [prefix, prefixAt] = [event.key, event.timeStamp];
}

export function start() {
  document.addEventListener("keydown", press);
}
