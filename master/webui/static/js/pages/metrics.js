// Metrics of trials over their steps, as charts: one for each metric.

import { api, number, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose } from "../router.js";
import { LineChart } from "../widgets/chart.js";
import { Problem } from "../widgets/problem.js";

/** @typedef {import("../store.js").Schemas["Trial"]} Trial */
/** @typedef {import("../store.js").Schemas["ComparedTrialsReply"]} Compared */

const POINTS = 500;
const MOST_METRICS = 24;

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

export const MetricCharts = component(
  /** @param {{ trials: Trial[], best?: number | null, isOver: boolean }} props */
  ({ trials, best, isOver }) => {
    const { query } = address.value;
    const isLog = query.get("scale") === "log";
    const only = query.get("metric") ?? "";
    const known = metricsOf(trials);
    const shown = (only ? known.filter((metric) => metric === only) : known).slice(0, MOST_METRICS);
    const ids = trials.map((trial) => trial.id).sort((a, b) => a - b);
    const topic = ids.length === 1 ? `trial ${ids[0]}` : `trials ${trials[0]?.experimentId ?? 0}`;
    const { data, error, refresh } = useLive(
      `${topic}: metrics ${ids.join()} ${shown.join()}`,
      async (signal) => {
        if (!shown.length) return { trials: [] };
        const asked = { trialIds: ids, metricIds: shown, maxDatapoints: POINTS };
        return ok(api.GET("/api/v1/trials/time-series", { params: { query: asked }, signal }));
      },
      { isOver: () => isOver },
    );
    if (!known.length)
      return h(
        "p",
        { class: "empty" },
        isOver ? "It reported no metrics." : "No metrics yet: training code reports them with ",
        !isOver && h("code", null, "core_context.train.report_training_metrics"),
      );
    return h(
      "div",
      null,
      h(
        "div",
        { class: "bar" },
        h(
          "select",
          { "aria-label": "Metric", value: only, onChange: (event) => choose({ metric: event.currentTarget.value }) },
          h("option", { value: "" }, "all metrics"),
          known.map((metric) => h("option", { key: metric, value: metric }, metric)),
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
      shown.length < known.length &&
        !only &&
        h("p", { class: "note" }, `The first ${shown.length} of ${known.length} metrics: choose others above.`),
      error && !data && Problem({ error, retry: refresh }),
      h(
        "div",
        { class: "charts" },
        data &&
          shown.map((metric) =>
            LineChart({
              key: metric,
              title: metric,
              xLabel: "steps",
              isLog,
              series: seriesOf(data, metric, best ?? null),
            }),
          ),
      ),
    );
  },
);

/**
 * @param {Compared} compared
 * @param {string} metric
 * @param {number | null} best
 */
function seriesOf(compared, metric, best) {
  const at = metric.indexOf(".");
  const [group, name] = [metric.slice(0, at), metric.slice(at + 1)];
  return compared.trials.flatMap(({ trial, metrics }) => {
    const points = metrics
      .filter((one) => one.group === group)
      .flatMap((one) => one.data)
      .filter((point) => name in point.values);
    if (!points.length) return [];
    const byStep = new Map(points.map((point) => [point.batches, number(point.values[name])]));
    const x = [...byStep.keys()].sort((a, b) => a - b);
    return [{ label: `trial ${trial.id}`, x, y: x.map((step) => byStep.get(step) ?? null), isBest: trial.id === best }];
  });
}
