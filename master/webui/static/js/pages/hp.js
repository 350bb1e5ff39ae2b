// Hyperparameters of all trials of an experiment, and what they do to a metric. What is chosen in a view holds in all.

import { useMemo } from "../../vendor/hooks.js";
import { count, shell } from "../format.js";
import { component, group, h } from "../html.js";
import { address, choose } from "../router.js";
import { importance } from "../statistics.js";
import { Choices, namesOf, textOf } from "../widgets/choices.js";
import { Command } from "../widgets/command.js";
import { pending } from "../widgets/page.js";
import { Parallel } from "../widgets/parallel.js";
import { Ranges } from "../widgets/ranges.js";
import { useBestTrials } from "./charts.js";
import { axesOf, metricAxis, metricOf, numbersOf, rangesOf, rowsWithin, sharesOf, useColumns } from "./columns.js";
import { Chosen, Heat, Importance, Points } from "./hp_views.js";
import { metricsOf } from "./metrics.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {import("./columns.js").Axis} Axis */
/** @typedef {import("./columns.js").Value} Value */
/** @typedef {import("../widgets/scale.js").Range} Range */

const MOST_AXES = 8;
/** Trials whose metrics can be chosen. */
const MOST_ASKED = 10;
const VALUES = /** @type {const} */ (["smallest", "largest", "last"]);
/** @type {Schemas["TrialColumnsReply"]["trials"]} */
const NO_TRIALS = [];

export const Hyperparameters = component(
  /** @param {{ experiment: Schemas["Experiment"], isOver: boolean }} props */
  ({ experiment, isOver }) => {
    const { query } = address.value;
    const asked = query.get("of") ?? "";
    const { data, error, refresh } = useColumns(experiment.id, query.get("metric") ?? "", isOver);
    const chosen = VALUES.find((one) => one === asked) ?? (data?.smallerIsBetter === false ? "largest" : "smallest");
    const isLog = query.get("scale") === "log";
    const axes = useMemo(() => (data ? axesOf(data) : []), [data]);
    const values = useMemo(() => (data ? metricOf(data, chosen) : []), [data, chosen]);
    const title = data ? `${chosen} ${data.metric}` : "";
    const metric = useMemo(() => metricAxis(values, title, isLog), [values, title, isLog]);
    const shares = useMemo(() => sharesOf(values, data?.smallerIsBetter ?? true), [values, data]);
    const order = useMemo(
      () =>
        axes
          .map((axis) => ({ axis, found: importance(axis.values, values) }))
          .sort((a, b) => (b.found?.share ?? -1) - (a.found?.share ?? -1)),
      [axes, values],
    );
    const text = query.get("ranges");
    const ranges = useMemo(() => rangesOf(text), [text]);
    const trials = data?.trials ?? NO_TRIALS;
    const within = useMemo(() => rowsWithin([...axes, metric], ranges, trials.length), [axes, metric, ranges, trials]);
    const names = namesOf(query.get("axes"));
    const first = order.slice(0, MOST_AXES).map(({ axis }) => axis.title);
    const shown = axes.filter(({ title: name }) => (names.length ? names : first).includes(name));
    const drawn = useMemo(() => [...shown, metric], [shown.map(({ id }) => id).join(), axes, metric]);
    if (!data) return pending({ error, refresh });
    if (!trials.length) return h("p", { class: "empty" }, "No trials yet.");
    if (!axes.length)
      return h("p", { class: "empty" }, "All trials have the same hyperparameters: there is nothing to compare.");
    const setRanges = (/** @type {Record<string, Range | null>} */ changes) => {
      const next = Object.entries({ ...ranges, ...changes }).filter(([, range]) => range !== null);
      choose({ ranges: next.length ? JSON.stringify(Object.fromEntries(next)) : "" });
    };
    const view = { experiment: experiment.id, columns: data, axes, metric, shares, within, order, setRanges };
    return h(
      "div",
      null,
      Controls({ experiment, columns: data, chosen, isLog, shown: shown.map((axis) => axis.title), axes }),
      Notes({ columns: data, metric, isLog }),
      Parallel({
        title: "Parallel coordinates",
        hint:
          "A line for each trial; blue the best by rank, orange the worst. Drag along an axis to choose a range, " +
          "click it to take it away",
        axes: drawn,
        shares,
        within,
        ranges,
        onRange: (id, range) => setRanges({ [id]: range }),
        numbers: () => numbersOf(view, drawn),
      }),
      Ranges({ axes: drawn, ranges, onRange: (id, range) => setRanges({ [id]: range }) }),
      Chosen({ view, drawn, clear: Object.keys(ranges).length ? () => choose({ ranges: "" }) : null }),
      h("div", { class: "charts" }, Importance({ view }), Points({ view }), Heat({ view })),
      Command({ text: shell`det experiment list-trials ${experiment.id}` }),
    );
  },
);

const Controls = component(
  /**
   * @param {object} props
   * @param {Schemas["Experiment"]} props.experiment
   * @param {Schemas["TrialColumnsReply"]} props.columns
   * @param {Value} props.chosen
   * @param {boolean} props.isLog
   * @param {string[]} props.shown
   * @param {Axis[]} props.axes
   */
  ({ experiment, columns, chosen, isLog, shown, axes }) => {
    const { data } = useBestTrials(experiment.id, MOST_ASKED);
    const metrics = [...new Set([columns.searcherMetric, columns.metric, ...metricsOf(data?.trials ?? [])])];
    return h(
      "div",
      { class: "bar" },
      h(
        "select",
        { "aria-label": "Value", value: chosen, onChange: (event) => choose({ of: event.currentTarget.value }) },
        VALUES.map((one) => h("option", { key: one, value: one }, one)),
      ),
      h(
        "select",
        {
          "aria-label": "Metric",
          value: columns.metric,
          onChange: (event) => choose({ metric: event.currentTarget.value, ranges: "" }),
        },
        metrics.map((one) => h("option", { key: one, value: one }, one)),
      ),
      h(
        "label",
        null,
        h("input", {
          type: "checkbox",
          checked: isLog,
          onChange: (event) => choose({ scale: event.currentTarget.checked ? "log" : "" }),
        }),
        " logarithmic",
      ),
      Choices({
        label: "Axes",
        names: axes.map(({ title }) => title),
        chosen: shown,
        onChange: (names) => choose({ axes: textOf(names) }),
      }),
    );
  },
);

const Notes = component(
  /** @param {{ columns: Schemas["TrialColumnsReply"], metric: Axis, isLog: boolean }} props */
  ({ columns, metric, isLog }) => {
    const { trials, total, hyperparameters, hyperparametersTotal, steps } = columns;
    const placeless = metric.values.filter((one) => metric.scale.place(one) === null).length;
    const lengths = new Set(steps).size;
    /** @type {string[]} */
    const notes = [];
    if (total > trials.length) notes.push(`The best ${trials.length.toLocaleString()} of ${count(total, "trial")}.`);
    if (hyperparametersTotal > hyperparameters.length) {
      notes.push(`The first ${hyperparameters.length} of ${hyperparametersTotal} hyperparameters that differ.`);
    }
    if (isLog && metric.scale.kind !== "log") notes.push("No value is positive, so the axis is not logarithmic.");
    if (placeless) notes.push(`${count(placeless, "trial")} without a value that has a place on the metric's axis.`);
    if (lengths > 1) notes.push("Trials have not all trained for as many steps: compare their metrics with care.");
    return group(notes.map((note) => h("p", { key: note, class: "note" }, note)));
  },
);
