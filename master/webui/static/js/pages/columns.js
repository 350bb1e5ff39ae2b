// Hyperparameters and a metric of all trials of an experiment, as axes.

import { api, number, ok } from "../api.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { ranksOf } from "../statistics.js";
import { isWithin, scaleOf, wordOf } from "../widgets/scale.js";

/** @typedef {import("../store.js").Schemas["TrialColumnsReply"]} Columns */
/** @typedef {import("../widgets/parallel.js").Axis} Axis */
/** @typedef {import("../widgets/scale.js").Range} Range */
/** @typedef {"smallest" | "largest" | "last"} Value */

/**
 * @typedef {object} View What all drawings of the page share.
 * @property {number} experiment
 * @property {Columns} columns
 * @property {Axis[]} axes of hyperparameters
 * @property {Axis} metric
 * @property {(number | null)[]} shares
 * @property {boolean[]} within
 * @property {{ axis: Axis, found: import("../statistics.js").Importance | null }[]} order the most important first
 * @property {(changes: Record<string, Range | null>) => void} setRanges
 */

const EVERY_MS = 5_000;
export const METRIC = "metric";

/** @param {number} id @param {string} metric `group.name`; empty: the searcher's @param {boolean} isOver */
export function useColumns(id, metric, isOver) {
  return useLive(
    `trials ${id}: columns ${metric}`,
    (signal) =>
      ok(
        api.GET("/api/v1/windlass/experiments/{id}/trial-columns", {
          params: { path: { id }, query: metric ? { metric } : {} },
          signal,
        }),
      ),
    { everyMs: EVERY_MS, isOver: () => isOver },
  );
}

/** @param {Columns} columns @param {Value} chosen @returns {(number | null)[]} */
export function metricOf(columns, chosen) {
  return columns[chosen].map(number);
}

/** @param {Columns} columns @returns {Axis[]} */
export function axesOf(columns) {
  return columns.hyperparameters.map(({ name, kind, values }) => ({
    id: `hp.${name}`,
    title: name,
    values,
    scale: scaleOf(values, { isLog: kind === "log" }),
  }));
}

/** @param {(number | null)[]} metric @param {string} title @param {boolean} isLog @returns {Axis} */
export function metricAxis(metric, title, isLog) {
  return { id: METRIC, title, values: metric, scale: scaleOf(metric, { isLog }) };
}

/**
 * Of each its place by rank, from 0, the best, to 1.
 *
 * @param {(number | null)[]} metric
 * @param {boolean} smallerIsBetter
 */
export function sharesOf(metric, smallerIsBetter) {
  const known = metric.flatMap((one, at) => (one !== null && Number.isFinite(one) ? [at] : []));
  const ranks = ranksOf(known.map((at) => Number(metric[at])));
  /** @type {(number | null)[]} */
  const shares = metric.map(() => null);
  for (const [place, at] of known.entries()) {
    const share = known.length > 1 ? (Number(ranks[place]) - 1) / (known.length - 1) : 0;
    shares[at] = smallerIsBetter ? share : 1 - share;
  }
  return shares;
}

/** Which rows are in all ranges. @param {Axis[]} axes @param {Record<string, Range>} ranges @param {number} rows */
export function rowsWithin(axes, ranges, rows) {
  const set = axes.flatMap(({ id, values }) => (ranges[id] ? [{ values, range: ranges[id] }] : []));
  return Array.from({ length: rows }, (_, row) => set.every(({ values, range }) => isWithin(range, values[row])));
}

/** @param {string | null} text of an address @returns {Record<string, Range>} */
export function rangesOf(text) {
  try {
    const found = Object.entries(JSON.parse(text ?? "{}"));
    return Object.fromEntries(found.filter(([, range]) => isRange(range)));
  } catch {
    return {};
  }
}

/** Two numbers, or words as `wordOf` makes them. Raises SyntaxError. @param {unknown} range */
function isRange(range) {
  if (!Array.isArray(range) || !range.length) return false;
  if (range.length === 2 && range.every((one) => typeof one === "number")) return true;
  return range.every((one) => typeof one === "string" && wordOf(JSON.parse(one)) === one);
}

/** The trials within the ranges, with what is drawn of them. @param {View} view @param {Axis[]} drawn */
export function numbersOf({ experiment, columns, within }, drawn) {
  const rows = columns.trials.flatMap((_, row) => (within[row] ? [row] : []));
  return {
    head: ["Trial", ...drawn.map(({ title }) => title)],
    links: rows.map((row) => trialHref(experiment, columns, row)),
    rows: rows.map((row) => [columns.trials[row], ...drawn.map(({ values }) => values[row])]),
  };
}

/** @param {number} experiment @param {Columns} columns @param {number} row */
export function trialHref(experiment, columns, row) {
  return href(`experiments/${experiment}/trials/${columns.trials[row]}`);
}
