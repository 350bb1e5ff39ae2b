// Views of hyperparameters beside parallel coordinates: which trials are chosen, which hyperparameters matter, points,
// and cells.

import { count, percent, value } from "../format.js";
import { component, group, h } from "../html.js";
import { address, choose } from "../router.js";
import { LEAST_ROWS, median } from "../statistics.js";
import { binsOf } from "../widgets/bins.js";
import { Figure } from "../widgets/figure.js";
import { HeatMap } from "../widgets/heat_map.js";
import { Scatter } from "../widgets/scatter.js";
import { ShortTable } from "../widgets/short_table.js";
import { State } from "../widgets/state.js";
import { numbersOf, sharesOf, trialHref } from "./columns.js";

/** @typedef {import("./columns.js").View} View */
/** @typedef {import("./columns.js").Axis} Axis */

const MOST_CHOSEN = 20;
const MOST_BINS = 8;

export const Chosen = component(
  /** @param {{ view: View, drawn: Axis[], clear: (() => void) | null }} props */
  ({ view, drawn, clear }) => {
    const { columns, within, experiment } = view;
    const rows = columns.trials.flatMap((_, row) => (within[row] ? [row] : []));
    return group(
      h(
        "p",
        { class: "bar" },
        h(
          "span",
          { role: "status" },
          `${rows.length.toLocaleString()} of ${count(columns.trials.length, "trial")} in the ranges`,
          rows.length > MOST_CHOSEN ? `, the best ${MOST_CHOSEN} of them:` : "",
        ),
        clear && h("button", { type: "button", class: "plain", onClick: clear }, "Clear the ranges"),
      ),
      ShortTable({
        label: "Trials in the ranges",
        rows: rows.slice(0, MOST_CHOSEN),
        rowKey: (row) => columns.trials[row] ?? row,
        empty: "No trial is in all ranges.",
        columns: [
          {
            title: "Trial",
            cell: (row) => h("a", { href: trialHref(experiment, columns, row) }, columns.trials[row]),
          },
          { title: "State", cell: (row) => State({ state: columns.states[row] ?? "" }) },
          { title: "Steps", isNumber: true, cell: (row) => columns.steps[row] },
          ...drawn.map(({ title, values, scale }) => ({
            title,
            isNumber: scale.kind !== "words",
            cell: (/** @type {number} */ row) => value(values[row]),
          })),
        ],
      }),
    );
  },
);

export const Importance = component(
  /** @param {{ view: View }} props */
  ({ view: { order, metric } }) => {
    const rows = order.map(({ axis, found }) => [
      axis.title,
      found ? percent(found.share) : `fewer than ${LEAST_ROWS} trials`,
      found ? direction(found.sign) : "",
      found?.rows ?? "",
    ]);
    const head = ["Hyperparameter", "Explains", "More of it", "Trials"];
    return Figure({
      title: "Importance",
      hint: `How much of the order of the ${metric.title} each hyperparameter explains alone`,
      numbers: () => ({ head, rows }),
      notes: [
        "Of the variance of ranks: Spearman's correlation squared for numbers, Kruskal and Wallis's epsilon squared " +
          "for words, less what chance gives. One at a time: effects of two together, and of a best value in the " +
          "middle, do not show.",
      ],
      children: h(
        "ul",
        { class: "bars" },
        order.map(({ axis, found }) =>
          h(
            "li",
            { key: axis.id },
            h("span", null, axis.title),
            h("meter", { min: 0, max: 1, value: found?.share ?? 0, "aria-label": `Importance of ${axis.title}` }),
            h(
              "span",
              null,
              found ? `${percent(found.share)} ${{ 1: "↑", [-1]: "↓", 0: "" }[found.sign] ?? ""}` : "too few",
            ),
          ),
        ),
      ),
    });
  },
);

/** @param {number} sign */
function direction(sign) {
  return sign > 0 ? "larger metric" : sign < 0 ? "smaller metric" : "";
}

export const Points = component(
  /** @param {{ view: View }} props */
  ({ view }) => {
    const { columns, metric, order, shares, within, experiment } = view;
    const axis = named(view, "against") ?? order[0]?.axis;
    if (!axis) return null;
    return h(
      "div",
      null,
      AxisChoice({ label: "Points by", view, word: "against", chosen: axis }),
      Scatter({
        title: `${metric.title} by ${axis.title}`,
        hint:
          "A point for each trial; blue the best by rank, orange the worst. Drag a box to choose ranges, click to " +
          "open a trial",
        x: axis,
        y: metric,
        shares,
        within,
        about: (row) => ({
          title: `trial ${columns.trials[row]}: ${value(metric.values[row])} at ${value(axis.values[row])}`,
          href: trialHref(experiment, columns, row),
        }),
        onRanges: view.setRanges,
        numbers: () => numbersOf(view, [axis, metric]),
      }),
    );
  },
);

export const Heat = component(
  /** @param {{ view: View }} props */
  ({ view }) => {
    const { columns, metric, order, within } = view;
    const across = named(view, "across") ?? order[0]?.axis;
    const down = named(view, "down") ?? order.find(({ axis }) => axis !== across)?.axis;
    if (!across || !down) return null;
    const [wide, tall] = [binsOf(across, MOST_BINS), binsOf(down, MOST_BINS)];
    const cells = tall.flatMap((row) => {
      const here = new Set(row.rows);
      return wide.map((column) => column.rows.filter((at) => here.has(at) && within[at]));
    });
    const medians = cells.map((rows) => median(rows.map((at) => Number(metric.values[at] ?? NaN))));
    const shares = sharesOf(medians, columns.smallerIsBetter);
    return h(
      "div",
      null,
      AxisChoice({ label: "Cells across", view, word: "across", chosen: across }),
      " ",
      AxisChoice({ label: "Cells down", view, word: "down", chosen: down }),
      HeatMap({
        title: `Median ${metric.title}`,
        hint: "Of the trials in each cell that are in the ranges; blue the best by rank, orange the worst",
        notes: [across, down]
          .filter((axis) => axis.scale.words.length > MOST_BINS)
          .map((axis) => `The first ${MOST_BINS} of ${axis.scale.words.length} values of ${axis.title}.`),
        acrossTitle: across.title,
        downTitle: down.title,
        columns: wide.map((bin) => bin.title),
        rows: tall.map((bin) => bin.title),
        cell: (row, column) => {
          const at = row * wide.length + column;
          const rows = cells[at] ?? [];
          if (!rows.length) return null;
          return {
            text: value(medians[at]) || "none",
            share: shares[at] ?? null,
            hint: `median of ${count(rows.length, "trial")}; press to choose them`,
          };
        },
        onPick: (row, column) => {
          const [x, y] = [wide[column], tall[row]];
          if (x && y) view.setRanges({ [across.id]: x.range, [down.id]: y.range });
        },
      }),
    );
  },
);

/** The axis that was chosen. @param {View} view @param {string} word of the address */
function named({ axes }, word) {
  const title = address.value.query.get(word);
  return axes.find((axis) => axis.title === title);
}

const AxisChoice = component(
  /** @param {{ label: string, view: View, word: string, chosen: Axis }} props */
  ({ label, view, word, chosen }) =>
    h(
      "select",
      { "aria-label": label, value: chosen.title, onChange: (event) => choose({ [word]: event.currentTarget.value }) },
      view.axes.map(({ id, title }) => h("option", { key: id, value: title }, `${label.toLowerCase()} ${title}`)),
    ),
);
