// From values to places on an axis, from 0 to 1: numbers, logarithms, or words one above the other. Pure.

import { value as shown } from "../format.js";

/** @typedef {{ at: number, text: string }} Tick */
/** @typedef {[low: number, high: number] | string[]} Range Of an axis of numbers its ends, of words those chosen. */

/**
 * @typedef {object} Scale
 * @property {"number" | "log" | "words"} kind
 * @property {(value: unknown) => number | null} place null: there is none for it
 * @property {(most: number) => Tick[]} ticks
 * @property {(from: number, to: number) => Range} range what lies between two places
 * @property {string[]} words of an axis of words
 */

/** @param {unknown} one @returns {one is number} */
function isNumber(one) {
  return typeof one === "number" && Number.isFinite(one);
}

/** What is not there, and a number that no axis has. @param {unknown} one */
function isMissing(one) {
  return one === null || one === undefined || (typeof one === "number" && !Number.isFinite(one));
}

/** The word of a value: `1` and `"1"` are two. @param {unknown} one */
export function wordOf(one) {
  return JSON.stringify(one) ?? "";
}

/**
 * Of values that are all numbers an axis of numbers; if there is anything else, one of words. A logarithmic axis has no
 * place for what is not positive; if nothing is, the axis is not logarithmic.
 *
 * @param {unknown[]} values
 * @param {{ isLog?: boolean }} [options]
 * @returns {Scale}
 */
export function scaleOf(values, { isLog = false } = {}) {
  const known = values.filter((one) => !isMissing(one));
  if (!known.every(isNumber)) return wordScale(known);
  const positive = isLog ? known.filter((one) => one > 0) : [];
  return positive.length ? logScale(positive) : numberScale(known);
}

/** @param {unknown[]} known @returns {Scale} */
function wordScale(known) {
  const distinct = new Map(known.map((one) => [wordOf(one), one]));
  const words = [...distinct]
    .sort(([a, x], [b, y]) =>
      isNumber(x) && isNumber(y) ? x - y : isNumber(x) ? -1 : isNumber(y) ? 1 : a < b ? -1 : 1,
    )
    .map(([word]) => word);
  const places = new Map(words.map((word, index) => [word, words.length > 1 ? index / (words.length - 1) : 0.5]));
  const texts = words.map((word) => shown(distinct.get(word)));
  const titles = words.map((word, at) => (texts.indexOf(texts[at] ?? "") === at ? texts[at] : word));
  return {
    kind: "words",
    words,
    place: (one) => (isMissing(one) ? null : (places.get(wordOf(one)) ?? null)),
    ticks: (most) => {
      const every = Math.ceil(words.length / Math.max(1, most));
      return words
        .map((word, index) => ({ at: places.get(word) ?? 0, text: titles[index] ?? "" }))
        .filter((_, index) => index % every === 0);
    },
    range: (from, to) => words.filter((word) => from <= Number(places.get(word)) && Number(places.get(word)) <= to),
  };
}

/** @param {number[]} known */
function ends(known) {
  const low = known.reduce((a, b) => Math.min(a, b), Infinity);
  const high = known.reduce((a, b) => Math.max(a, b), -Infinity);
  return low <= high ? { low, high } : { low: 0, high: 0 };
}

/**
 * @param {number} low
 * @param {number} high
 * @param {(one: number) => number} to
 * @param {(place: number) => number} back
 */
function placed(low, high, to, back) {
  const [first, last] = [to(low), to(high)];
  return {
    place: (/** @type {unknown} */ one) => {
      if (!isNumber(one)) return null;
      const at = to(one);
      if (!Number.isFinite(at)) return null;
      return last > first ? (at - first) / (last - first) : 0.5;
    },
    range: (/** @type {number} */ from, /** @type {number} */ until) =>
      /** @type {Range} */ ([back(first + from * (last - first)), back(first + until * (last - first))]),
  };
}

/** @param {number[]} known @returns {Scale} */
function numberScale(known) {
  const { low, high } = ends(known);
  const { place, range } = placed(
    low,
    high,
    (one) => one,
    (one) => one,
  );
  const ticks = (/** @type {number} */ most) => {
    if (high <= low) return [{ at: 0.5, text: shown(low) }];
    const least = (high - low) / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(least));
    const step = power * ([1, 2, 5, 10].find((one) => one * power >= least) ?? 10);
    // Large numbers that differ little have fewer digits than the step: counting on from them would never end.
    const first = Math.ceil(low / step);
    const marks = Array.from({ length: most + 2 }, (_, at) => (first + at) * step);
    const found = [...new Set(marks)].filter((one) => low <= one && one <= high);
    return found.map((one) => ({ at: place(one) ?? 0, text: shown(Math.abs(one) < step / 1e6 ? 0 : one) }));
  };
  return { kind: "number", words: [], place, range, ticks: known.length ? ticks : () => [] };
}

/** @param {number[]} positive @returns {Scale} */
function logScale(positive) {
  const { low, high } = ends(positive);
  const { place, range } = placed(low, high, Math.log10, (one) => 10 ** one);
  const ticks = (/** @type {number} */ most) => {
    const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
    if (last <= first) return [...new Set([low, high])].map((one) => ({ at: place(one) ?? 0, text: shown(one) }));
    const every = Math.ceil((last - first + 1) / Math.max(1, most));
    const found = [];
    for (let power = first; power <= last; power += every) found.push(10 ** power);
    return found.map((one) => ({ at: place(one) ?? 0, text: shown(one) }));
  };
  return { kind: "log", words: [], place, range, ticks };
}

/** @param {Range} range @param {unknown} one */
export function isWithin(range, one) {
  if (isMissing(one)) return false;
  const [low, high] = range;
  if (typeof low === "number" && typeof high === "number") return isNumber(one) && low <= one && one <= high;
  return /** @type {string[]} */ (range).includes(wordOf(one));
}
