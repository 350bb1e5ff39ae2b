// Metrics of trials over their steps, epochs or hours, as charts: one for each metric.

import { useState } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose, href } from "../router.js";
import { LineChart } from "../widgets/chart.js";
import { Choices, namesOf, textOf } from "../widgets/choices.js";
import { Problem } from "../widgets/problem.js";

/** @typedef {import("../store.js").Schemas["Trial"]} Trial */
/** @typedef {import("../store.js").Schemas["MetricOfTrials"]} MetricOfTrials */
/** @typedef {import("../store.js").Schemas["TrialSeries"]} TrialSeries */
/** @typedef {keyof typeof AXES} Axis */

const POINTS = 500;
const MOST_METRICS = 24;
const MOST_NOTES = 3;
const AXES = { steps: "steps", epochs: "epochs", hours: "hours since its first report" };
const SMOOTHINGS = [0, 0.6, 0.9, 0.97];

/** `validation.loss` of all that trials have reported. @param {Pick<Trial, "summaryMetrics">[]} trials */
export function metricsOf(trials) {
  const found = new Set(/** @type {string[]} */ ([]));
  for (const { summaryMetrics } of trials) {
    for (const [field, metrics] of Object.entries(summaryMetrics)) {
      if (!metrics || typeof metrics !== "object") continue;
      const group = { avg_metrics: "training", validation_metrics: "validation" }[field] ?? field;
      for (const name of Object.keys(metrics)) found.add(`${group}.${name}`);
    }
  }
  return [...found].sort();
}

/** @typedef {{ metrics: string[], points: number, start?: number, end?: number }} Asked */

/** @param {Trial[]} trials */
function topicOf(trials) {
  if (trials.length === 1) return `trial ${trials[0]?.id}`;
  return [...new Set(trials.map((trial) => `trials ${trial.experimentId}`))].join(" + ") || "me";
}

/**
 * Curves of trials: the master has those of one experiment together.
 *
 * @param {Trial[]} trials
 * @param {Asked} asked
 * @param {AbortSignal} signal
 * @returns {Promise<MetricOfTrials[]>} in the order of the metrics
 */
async function seriesOf(trials, asked, signal) {
  if (!trials.length || !asked.metrics.length) return [];
  const experiments = [...new Set(trials.map((trial) => trial.experimentId))];
  const found = await Promise.all(
    experiments.map((id) => {
      const trialIds = trials.flatMap((trial) => (trial.experimentId === id ? [trial.id] : [])).sort((a, b) => a - b);
      const params = { path: { id }, query: { ...asked, trialIds } };
      return ok(api.GET("/api/v1/windlass/experiments/{id}/metric-series", { params, signal }));
    }),
  );
  return asked.metrics.map((metric) => ({
    metric,
    series: found.flatMap(({ metrics }) => metrics.find((one) => one.metric === metric)?.series ?? []),
  }));
}

export const MetricCharts = component(
  /**
   * @param {object} props
   * @param {Trial[]} props.trials of any experiments
   * @param {number | null} [props.best]
   * @param {boolean} props.isOver
   * @param {string} [props.only] this metric, and nothing to choose
   */
  ({ trials, best, isOver, only }) => {
    const { query } = address.value;
    const known = metricsOf(trials);
    const chosen = only ? [only] : namesOf(query.get("metrics"));
    const shown = known.filter((metric) => !chosen.length || chosen.includes(metric)).slice(0, MOST_METRICS);
    const ids = trials.map((trial) => trial.id).sort((a, b) => a - b);
    const topic = topicOf(trials);
    const { data, error, refresh } = useLive(
      `${topic}: metrics ${ids.join()} ${shown.join()}`,
      (signal) => seriesOf(trials, { metrics: shown, points: POINTS }, signal),
      { isOver: () => isOver },
    );
    if (!known.length)
      return h(
        "p",
        { class: "empty" },
        isOver ? "It reported no metrics." : "No metrics yet: training code reports them with ",
        !isOver && h("code", null, "core_context.train.report_training_metrics"),
      );
    if (only && !shown.length) return h("p", { class: "empty" }, `No trial has reported ${only}: Charts has others.`);
    const options = only ? { axis: /** @type {Axis} */ ("steps"), isLog: false, smoothing: 0 } : optionsOf(query);
    return h(
      "div",
      null,
      !only && Controls({ known, shown, ...options }),
      !only &&
        !chosen.length &&
        shown.length < known.length &&
        h("p", { class: "note" }, `The first ${shown.length} of ${known.length} metrics: choose others above.`),
      error && !data && Problem({ error, retry: refresh }),
      h(
        "div",
        { class: "charts" },
        data?.map((metric) => MetricChart({ key: metric.metric, metric, best: best ?? null, trials, options, isOver })),
      ),
    );
  },
);

/** @param {URLSearchParams} query @returns {{ axis: Axis, isLog: boolean, smoothing: number }} */
function optionsOf(query) {
  const axis = query.get("x") ?? "";
  const smoothing = Number(query.get("smooth"));
  return {
    axis: axis === "epochs" || axis === "hours" ? axis : "steps",
    isLog: query.get("scale") === "log",
    smoothing: SMOOTHINGS.includes(smoothing) ? smoothing : 0,
  };
}

const Controls = component(
  /** @param {{ known: string[], shown: string[], axis: Axis, isLog: boolean, smoothing: number }} props */
  ({ known, shown, axis, isLog, smoothing }) =>
    h(
      "div",
      { class: "bar" },
      Choices({
        label: "Metrics",
        names: known,
        chosen: shown,
        onChange: (names) => choose({ metrics: names.length < known.length ? textOf(names) : "" }),
      }),
      h(
        "select",
        {
          "aria-label": "Horizontal axis",
          value: axis,
          onChange: (event) => choose({ x: event.currentTarget.value === "steps" ? "" : event.currentTarget.value }),
        },
        Object.keys(AXES).map((one) => h("option", { key: one, value: one }, `by ${one}`)),
      ),
      h(
        "select",
        {
          "aria-label": "Smoothing",
          title: "The weight of what was before, in an exponential moving average",
          value: String(smoothing),
          onChange: (event) => choose({ smooth: event.currentTarget.value === "0" ? "" : event.currentTarget.value }),
        },
        SMOOTHINGS.map((one) => h("option", { key: one, value: String(one) }, one ? `smoothed ${one}` : "as reported")),
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
    ),
);

const MetricChart = component(
  /**
   * @param {object} props
   * @param {MetricOfTrials} props.metric
   * @param {number | null} props.best
   * @param {Trial[]} props.trials
   * @param {{ axis: Axis, isLog: boolean, smoothing: number }} props.options
   * @param {boolean} props.isOver
   */
  ({ metric, best, trials, options: { axis, isLog, smoothing }, isOver }) => {
    const [part, setPart] = useState(/** @type {import("../widgets/chart.js").Part | null} */ (null));
    const closer = useCloser(metric, trials, axis === "steps" ? part : null, isOver);
    const series = metric.series.map((one) => ({
      label: `trial ${one.trialId}`,
      ...along(merged(one, closer), axis),
      isBest: one.trialId === best,
      href: trials.length > 1 ? href(`trials/${one.trialId}`) : undefined,
    }));
    const diverged = metric.series.filter((one) => one.notFinite !== null);
    const marks = diverged
      .slice(0, MOST_NOTES)
      .map((one) => ({ x: one.notFinite?.firstSteps ?? 0, title: words(one) }));
    const notes = axis === "steps" ? [] : marks.map((mark) => mark.title);
    const more = diverged.length - marks.length;
    return LineChart({
      title: metric.metric,
      hint:
        `Each line is a trial${best === null ? "" : ", the best one thick"}; at most ${POINTS} points of each, with ` +
        "the smallest and largest values of each part",
      xLabel: AXES[axis],
      series: series.filter((one) => one.x.length),
      isLog,
      smoothing,
      markers: axis === "steps" ? marks : undefined,
      onZoom: (next) => setPart((old) => (old?.from === next?.from && old?.to === next?.to ? old : next)),
      notes: more > 0 ? [...notes, `So have ${more} more trials.`] : notes,
    });
  },
);

/** @typedef {{ start: number, end: number, series: TrialSeries[] }} Closer What lies between some steps. */

/**
 * Points of the part in sight, if those of the whole have been reduced.
 *
 * @param {MetricOfTrials} metric
 * @param {Trial[]} trials
 * @param {import("../widgets/chart.js").Part | null} part
 * @param {boolean} isOver
 */
function useCloser({ metric, series }, trials, part, isOver) {
  const isReduced = series.some((one) => one.steps.length >= POINTS / 2);
  const [start, end] = part ? [Math.max(0, Math.floor(part.from)), Math.ceil(part.to)] : [0, 0];
  const ids = new Set(series.map((one) => one.trialId));
  const shown = trials.filter((trial) => ids.has(trial.id));
  const topic = topicOf(trials);
  const { data } = useLive(
    `${topic}: ${metric} of ${[...ids].join()} from ${start} to ${end} ${isReduced}`,
    /** @returns {Promise<Closer | null>} */
    async (signal) => {
      if (!part || !isReduced) return null;
      const [found] = await seriesOf(shown, { metrics: [metric], points: POINTS, start, end }, signal);
      return { start, end, series: found?.series ?? [] };
    },
    { isOver: (found) => isOver || found === null },
  );
  return data;
}

/** @param {TrialSeries} whole @param {Closer | null} closer @returns {TrialSeries} */
function merged(whole, closer) {
  const inside = closer?.series.find((one) => one.trialId === whole.trialId);
  if (!closer || !inside) return whole;
  const kept = whole.steps.flatMap((at, index) => (at < closer.start || at > closer.end ? [index] : []));
  const join = (/** @type {"steps" | "times" | "values"} */ name) => [
    ...kept.map((index) => Number(whole[name][index])),
    ...inside[name],
  ];
  const epochs = [...kept.map((index) => whole.epochs[index] ?? null), ...inside.epochs];
  return { ...whole, steps: join("steps"), times: join("times"), values: join("values"), epochs };
}

/** @param {TrialSeries} one */
function words({ trialId, notFinite }) {
  if (!notFinite) return "";
  const { count, firstSteps, lastSteps } = notFinite;
  const where = firstSteps === lastSteps ? `at step ${firstSteps}` : `from step ${firstSteps} to ${lastSteps}`;
  return `Trial ${trialId} has reported NaN or infinite ${count === 1 ? "once" : `${count} times`}, ${where}.`;
}

/**
 * Points in order of their axis; of several at one place the last.
 *
 * @param {TrialSeries} series
 * @param {Axis} axis
 */
function along({ steps, epochs, times, values }, axis) {
  const first = Math.min(...times);
  const at = { steps, epochs, hours: times.map((time) => (time - first) / 3600) }[axis];
  const found = new Map(/** @type {[number, number | null][]} */ ([]));
  for (const [index, one] of at.entries()) if (one !== null) found.set(one, number(values[index]));
  const x = [...found.keys()].sort((a, b) => a - b);
  return { x, y: x.map((one) => found.get(one) ?? null) };
}
