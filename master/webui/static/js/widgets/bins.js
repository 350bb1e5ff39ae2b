// Rows put together by ranges of a quantity: the lines and columns of a heat map. Pure.

import { value } from "../format.js";
import { isWithin } from "./scale.js";

/** @typedef {import("./parallel.js").Axis} Axis */
/** @typedef {import("./scale.js").Range} Range */
/** @typedef {{ title: string, range: Range, rows: number[] }} Bin */

/**
 * Few different values have a bin each, many are put into equal parts of the axis. What has no place is in none.
 *
 * @param {Axis} axis
 * @param {number} most
 * @returns {Bin[]}
 */
export function binsOf({ values, scale }, most) {
  if (scale.kind === "words") {
    const titles = scale.ticks(scale.words.length);
    return scale.words.slice(0, most).map((word, at) => filled(titles[at]?.text ?? word, [word], values));
  }
  const known = values.filter((one) => scale.place(one) !== null).map(Number);
  const distinct = [...new Set(known)].sort((a, b) => a - b);
  if (distinct.length <= most) {
    return distinct.map((one) => filled(value(one), [one, one], values));
  }
  const edges = Array.from({ length: most + 1 }, (_, at) => scale.range(at / most, at / most)[0]);
  /** @type {Bin[]} */
  const bins = edges.slice(1).map((high, at) => {
    const range = /** @type {Range} */ ([edges[at], high]);
    return { title: [edges[at], high].map(short).join(" to "), range, rows: [] };
  });
  for (const [row, one] of values.entries()) {
    const place = scale.place(one);
    if (place !== null) bins[Math.min(most - 1, Math.floor(place * most))]?.rows.push(row);
  }
  return bins;
}

/** @param {unknown} edge */
function short(edge) {
  return String(Number(Number(edge).toPrecision(3)));
}

/** @param {string} title @param {Range} range @param {unknown[]} values @returns {Bin} */
function filled(title, range, values) {
  return { title, range, rows: values.flatMap((one, row) => (isWithin(range, one) ? [row] : [])) };
}
