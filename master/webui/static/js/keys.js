// Keys: one for each action, two for a page (`g e`). Text fields and dialogs keep theirs, but for those with Ctrl.

/** @typedef {Record<string, (event: KeyboardEvent) => void>} Keys By the key, two (`g e`), or with Ctrl (`Ctrl+k`). */

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
  const fields = "input:not([type=checkbox]), textarea, select, dialog, [contenteditable]";
  return target instanceof Element && target.closest(fields) !== null;
}

/** @param {KeyboardEvent} event */
function press(event) {
  if (event.defaultPrevented || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.ctrlKey || event.metaKey) {
    act([`Ctrl+${event.key}`], event);
    return;
  }
  if (takesText(event.target)) return;
  const presses = event.key === "Enter" || event.key === " ";
  if (presses && event.target instanceof Element && event.target.closest("a, button, summary")) return;
  const both = event.timeStamp - prefixAt < TOGETHER_MS ? `${prefix} ${event.key}` : event.key;
  if (act([both, event.key], event)) prefix = "";
  else [prefix, prefixAt] = [event.key, event.timeStamp];
}

/**
 * Does what was bound last to the first of these names that is bound.
 *
 * @param {string[]} names
 * @param {KeyboardEvent} event
 */
function act(names, event) {
  for (const name of names) {
    const does = [...tables].reverse().find((keys) => keys[name])?.[name];
    if (!does) continue;
    event.preventDefault();
    does(event);
    return true;
  }
  return false;
}

export function start() {
  document.addEventListener("keydown", press);
}
