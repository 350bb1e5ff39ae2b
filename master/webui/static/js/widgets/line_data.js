// What lines of a chart are made of. Pure.

import uPlot from "../../vendor/uplot.js";

/**
 * @typedef {object} Series
 * @property {string} label
 * @property {number[]} x ascending
 * @property {(number | null)[]} y null, NaN and infinite: nothing is drawn there
 * @property {boolean} [isBest] drawn thick
 * @property {string} [href] where it leads
 */

/** @param {unknown} y @returns {y is number} */
function isFinite(y) {
  return Number.isFinite(y);
}

/**
 * Exponential moving average without the pull of its first value, as TensorBoard draws it.
 *
 * @param {(number | null)[]} y
 * @param {number} weight of what was before: 0 to below 1
 */
export function smoothed(y, weight) {
  if (!weight) return y;
  let sum = 0;
  let share = 1;
  return y.map((one) => {
    if (!isFinite(one)) return one;
    sum = sum * weight + (1 - weight) * one;
    share *= weight;
    return sum / (1 - share);
  });
}

/**
 * On one axis. A logarithm has no place for what is not positive.
 *
 * @param {Series[]} series
 * @param {{ isLog: boolean, smoothing: number }} options
 * @returns {uPlot.AlignedData}
 */
export function aligned(series, { isLog, smoothing }) {
  if (!series.length) return [[]];
  const shown = (/** @type {number | null} */ y) => (!isFinite(y) || (isLog && y <= 0) ? null : y);
  return uPlot.join(series.map(({ x, y }) => [x, smoothed(y, smoothing).map(shown)]));
}

/** How many values are zero or negative, and whether others are not. @param {Series[]} series */
export function signs(series) {
  const values = series.flatMap(({ y }) => y.filter(isFinite));
  const positive = values.filter((y) => y > 0).length;
  return { hasPositive: positive > 0, notPositive: values.length - positive };
}

/** @param {Series[]} series @param {string} xLabel @returns {import("./figure.js").Numbers} */
export function summary(series, xLabel) {
  return {
    head: ["Series", "Points", "First", "Last", "Smallest", "Largest", `Last ${xLabel}`],
    links: series.map(({ href }) => href),
    rows: series.map(({ label, x, y }) => {
      const known = y.filter(isFinite);
      const smallest = known.length ? known.reduce((a, b) => Math.min(a, b)) : null;
      const largest = known.length ? known.reduce((a, b) => Math.max(a, b)) : null;
      return [label, y.length, y[0], y.at(-1), smallest, largest, x.at(-1)];
    }),
  };
}

/** All points. @param {Series[]} series @param {string} xLabel */
export function points(series, xLabel) {
  const rows = series.flatMap(({ label, x, y }) => x.map((at, index) => [label, at, y[index]]));
  return [["series", xLabel, "value"], ...rows];
}
