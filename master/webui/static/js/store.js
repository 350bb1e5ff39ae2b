// What all pages share: who is logged in, whether the master answers, what is to be said.

import { signal } from "../vendor/signals.js";

/** @typedef {import("./openapi.js").components["schemas"]} Schemas */
/** @typedef {{ id: number, text: string, kind: "note" | "problem" }} Notice */

/** @type {import("../vendor/signals.js").Signal<Schemas["User"] | null>} */
export const me = signal(/** @type {Schemas["User"] | null} */ (null));
export const isAway = signal(false);
export const isSessionOver = signal(false);
export const notices = signal(/** @type {Notice[]} */ ([]));

const MOST_NOTICES = 5;
let count = 0;

/**
 * What stands there already is not said twice.
 *
 * @param {string} text
 * @param {"note" | "problem"} [kind]
 */
export function say(text, kind = "note") {
  if (notices.peek().some((notice) => notice.text === text && notice.kind === kind)) return;
  count += 1;
  notices.value = [...notices.peek(), { id: count, text, kind }].slice(-MOST_NOTICES);
}

/** @param {number} id */
export function dismiss(id) {
  notices.value = notices.peek().filter((notice) => notice.id !== id);
}

const THEME = "windlass-theme";

/** Light, dark, or nothing: as the system has it. */
export const theme = signal(localStorage.getItem(THEME) ?? "");
theme.subscribe((chosen) => {
  localStorage.setItem(THEME, chosen);
  document.documentElement.dataset.theme = chosen;
});
