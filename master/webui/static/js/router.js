// The address of the page: what is shown follows from it, so that going back, reloading and copied links work.

import { signal } from "../vendor/signals.js";

/** The path of the master's root, with its slash; a proxy may serve it below any prefix. */
export const ROOT = new URL(document.documentElement.dataset.root || "/", location.href).pathname;
const BASE = `${ROOT}det/`;

/** @typedef {{ path: string, query: URLSearchParams, hash: string }} Address The path is below `/det/`. */

/** @returns {Address} */
function shown() {
  const below = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : "";
  return { path: below.replace(/\/+$/, ""), query: new URLSearchParams(location.search), hash: location.hash.slice(1) };
}

export const address = signal(shown());

/**
 * For links: `href("experiments/7", { tab: "logs" })`.
 *
 * @param {string} path below `/det/`; segments of users' making go through `encodeURIComponent`
 * @param {Record<string, string | number | null | undefined>} [query]
 */
export function href(path, query = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") words.set(name, String(value));
  }
  return BASE + path + (words.size ? `?${words}` : "");
}

/**
 * @param {string} url of a page, as `href` makes it
 * @param {{ replace?: boolean }} [options] without an entry in the history
 */
export function go(url, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  const before = address.peek();
  address.value = shown();
  if (before.path !== address.peek().path) window.scrollTo(0, 0);
}

/**
 * Changes what a person chose on this page; null and "" remove a word.
 *
 * @param {Record<string, string | number | null | undefined>} changes
 */
export function choose(changes) {
  const { path, query } = address.peek();
  go(href(path, { ...Object.fromEntries(query), ...changes }), { replace: true });
}

/** @param {MouseEvent} event */
function follow(event) {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const elsewhere = link.target || link.hasAttribute("download") || link.dataset.reload !== undefined;
  if (elsewhere || link.origin !== location.origin || !link.pathname.startsWith(BASE)) return;
  const isHere = link.pathname === location.pathname && link.search === location.search;
  if (isHere && link.hash) return;
  event.preventDefault();
  go(link.href);
}

/** From now on links and the history change `address` instead of loading the page again. */
export function start() {
  addEventListener("popstate", () => (address.value = shown()));
  document.addEventListener("click", follow);
}
