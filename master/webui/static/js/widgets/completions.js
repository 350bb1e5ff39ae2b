// What may come next in a filter, as the master's language of filters has it. Nothing here touches the page.

/** @typedef {{ name: string, kind: string | null, meaning: string, values: string[] }} Word */
/** @typedef {{ text: string, note: string }} Option */
/** @typedef {{ start: number, end: number, options: Option[] }} Completions an option replaces `start` to `end` */

const MOST = 12;
const TYPED = /[^\s()"',=!<>~]*$/;
const COMPARED = /([^\s()"',=!<>~]+)\s*(?:=|!=|<=|>=|<|>|~|!~)\s*$/;
const LISTED = /([^\s()"',=!<>~]+)\s+in\s*\(\s*(?:[^()]*,)?\s*$/i;
const NAMED = /(?:^|[\s(])([^\s()"',=!<>~]+)\s+$/;
const OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "~", "in ("];
const JOINS = ["and", "or"];
const KEYWORDS = new Set(["and", "or", "not", "in"]);

/**
 * @param {string} text
 * @param {number} caret
 * @param {Word[]} words
 * @returns {Completions}
 */
export function completions(text, caret, words) {
  const typed = TYPED.exec(text.slice(0, caret))?.[0] ?? "";
  const start = caret - typed.length;
  const before = text.slice(0, start);
  const rest = /^[^\s()"',=!<>~]*/.exec(text.slice(caret))?.[0] ?? "";
  const fits = (/** @type {Option} */ option) => option.text.toLowerCase().includes(typed.toLowerCase());
  const found = candidates(before, words).filter((option) => fits(option) && option.text !== typed);
  const begins = (/** @type {Option} */ option) => (option.text.toLowerCase().startsWith(typed.toLowerCase()) ? 0 : 1);
  found.sort((one, other) => begins(one) - begins(other));
  return { start, end: caret + rest.length, options: found.slice(0, MOST) };
}

/** @param {string} before @param {Word[]} words @returns {Option[]} */
function candidates(before, words) {
  const named = (/** @type {string | undefined} */ name) =>
    words.find((word) => word.name === name?.toLowerCase() || word.name === name);
  const compared = COMPARED.exec(before) ?? LISTED.exec(before);
  if (compared) return (named(compared[1])?.values ?? []).map((value) => ({ text: quoted(value), note: "" }));
  const name = NAMED.exec(before)?.[1];
  if (named(name)) return OPERATORS.map((text) => ({ text, note: "" }));
  const names = words.map((word) => ({ text: quoted(word.name), note: word.meaning }));
  const isJoined = !before.trim() || /[(]\s*$/.test(before) || KEYWORDS.has(lastWord(before));
  return isJoined ? names : [...JOINS.map((text) => ({ text, note: "" })), ...names];
}

/** @param {string} before */
function lastWord(before) {
  return before.trim().split(/\s+/).at(-1)?.toLowerCase() ?? "";
}

/** As one word of a filter. @param {string} text */
export function quoted(text) {
  const isPlain = /^[^\s()"',=!<>~]+$/.test(text) && !KEYWORDS.has(text.toLowerCase());
  return isPlain ? text : `"${text.replace(/[\\"]/g, "\\$&")}"`;
}
