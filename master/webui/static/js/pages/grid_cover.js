// Which points of a grid have been tried, and how well each went, by two of its axes.

import { value } from "../format.js";
import { component, h } from "../html.js";
import { address, choose } from "../router.js";
import { median } from "../statistics.js";
import { HeatMap } from "../widgets/heat_map.js";
import { pending } from "../widgets/page.js";
import { wordOf } from "../widgets/scale.js";
import { metricOf, sharesOf, useColumns } from "./columns.js";

/** @typedef {import("../store.js").Schemas} Schemas */

const MOST_CELLS = 40;
const OVER = new Set(["STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR"]);

export const GridCover = component(
  /** @param {{ experiment: Schemas["Experiment"], axes: Schemas["GridAxis"][], isOver: boolean }} props */
  ({ experiment, axes, isOver }) => {
    const { data, error, refresh } = useColumns(experiment.id, "", isOver);
    if (!data) return pending({ error, refresh });
    const { query } = address.value;
    const across = axes.find((axis) => axis.name === query.get("across")) ?? axes[0];
    const down = axes.find((axis) => axis.name === query.get("down") && axis !== across) ?? other(axes, across);
    if (!across) return null;
    const points = axes.reduce((all, axis) => all * axis.size, 1);
    const each = points / across.size / (down?.size ?? 1);
    const best = data.smallerIsBetter ? "smallest" : "largest";
    const metric = metricOf(data, best);
    const rows = down ? placesOf(data, down) : data.trials.map(() => 0);
    const columns = placesOf(data, across);
    /** @type {Map<number, number[]>} */
    const trials = new Map();
    const width = Math.min(across.size, MOST_CELLS);
    for (const [at] of data.trials.entries()) {
      const [row = -1, column = -1] = [rows[at], columns[at]];
      if (row < 0 || column < 0 || column >= width) continue;
      const key = row * width + column;
      trials.set(key, [...(trials.get(key) ?? []), at]);
    }
    const keys = [...trials.keys()];
    const medians = keys.map((key) => median((trials.get(key) ?? []).map((at) => Number(metric[at] ?? NaN))));
    const shares = new Map(sharesOf(medians, data.smallerIsBetter).map((share, at) => [keys[at], share]));
    const cell = (/** @type {number} */ row, /** @type {number} */ column) => {
      const key = row * width + column;
      const here = trials.get(key) ?? [];
      const ended = here.filter((at) => OVER.has(data.states[at] ?? "")).length;
      const middle = medians[keys.indexOf(key)] ?? null;
      const done = each > 1 || !ended ? ` ${ended}/${each}` : "";
      return {
        text: `${value(middle)}${done}`.trim(),
        share: shares.get(key) ?? null,
        hint:
          `${ended} of ${each} ended, ${here.length - ended} begun; ` +
          `median of the ${best} ${data.metric}: ${value(middle) || "none"}`,
      };
    };
    const cut = [across, ...(down ? [down] : [])].filter((axis) => axis.size > MOST_CELLS);
    return h(
      "div",
      null,
      axes.length > 2 &&
        h(
          "p",
          { class: "bar" },
          Axes({ label: "Across", axes, chosen: across, word: "across" }),
          down && Axes({ label: "Down", axes: axes.filter((axis) => axis !== across), chosen: down, word: "down" }),
        ),
      HeatMap({
        title: `Points of the grid: ${data.states.filter((state) => OVER.has(state)).length} of ${points} ended`,
        hint: `In each cell the median of the ${best} ${data.metric} of its trials, and how many of them have ended`,
        notes: cut.map((axis) => `The first ${MOST_CELLS} of ${axis.size} values of ${axis.name}.`),
        acrossTitle: across.name,
        downTitle: down?.name ?? "",
        columns: across.values.slice(0, MOST_CELLS).map(value),
        rows: down ? down.values.slice(0, MOST_CELLS).map(value) : ["all"],
        cell,
      }),
    );
  },
);

/** @param {Schemas["GridAxis"][]} axes @param {Schemas["GridAxis"] | undefined} taken */
function other(axes, taken) {
  return axes.find((axis) => axis !== taken);
}

/**
 * Of each trial the index of its value on an axis.
 *
 * @param {Schemas["TrialColumnsReply"]} data
 * @param {Schemas["GridAxis"]} axis
 */
function placesOf(data, axis) {
  const places = new Map(axis.values.map((one, at) => [wordOf(one), at]));
  const column = data.hyperparameters.find(({ name }) => name === axis.name);
  return data.trials.map((_, at) => places.get(wordOf(column?.values[at])) ?? -1);
}

const Axes = component(
  /** @param {{ label: string, axes: Schemas["GridAxis"][], chosen: Schemas["GridAxis"], word: string }} props */
  ({ label, axes, chosen, word }) =>
    h(
      "select",
      { "aria-label": label, value: chosen.name, onChange: (event) => choose({ [word]: event.currentTarget.value }) },
      axes.map(({ name }) => h("option", { key: name, value: name }, `${label.toLowerCase()}: ${name}`)),
    ),
);
