// Curves of the best trials of an experiment: all metrics, or those chosen.

import { api, ok } from "../api.js";
import { count, shell } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose } from "../router.js";
import { Command } from "../widgets/command.js";
import { pending } from "../widgets/page.js";
import { MetricCharts } from "./metrics.js";

/** @typedef {import("../store.js").Schemas["Experiment"]} Experiment */

export const MOST_CURVES = 50;
const COUNTS = [1, 10, 25, MOST_CURVES, 100, 200];

/** @param {number} id @param {number} limit */
export function useBestTrials(id, limit) {
  return useLive(`trials ${id}: best ${limit}`, async (signal) =>
    ok(
      api.GET("/api/v1/experiments/{experiment_id}/trials", {
        params: { path: { experiment_id: id }, query: { limit, sortBy: "SORT_BY_BEST_VALIDATION_METRIC" } },
        signal,
      }),
    ),
  );
}

export const Charts = component(
  /** @param {{ experiment: Experiment, isOver: boolean }} props */
  ({ experiment, isOver }) => {
    const asked = Number(address.value.query.get("trials"));
    const most = COUNTS.includes(asked) ? asked : MOST_CURVES;
    const { data, error, refresh } = useBestTrials(experiment.id, most);
    if (!data) return pending({ error, refresh });
    const total = data.pagination.total;
    const trial = experiment.bestTrialId ?? data.trials[0]?.id;
    return h(
      "div",
      null,
      h(
        "p",
        { class: "bar" },
        h(
          "select",
          { "aria-label": "Trials", value: most, onChange: (event) => choose({ trials: event.currentTarget.value }) },
          COUNTS.map((one) => h("option", { key: one, value: one }, `the best ${count(one, "trial")}`)),
        ),
        h(
          "span",
          { class: "note", title: `By ${experiment.searcherMetric}; trials without it come last` },
          total > data.trials.length ? `${data.trials.length} of ${total} trials` : `all ${count(total, "trial")}`,
        ),
      ),
      MetricCharts({ trials: data.trials, best: experiment.bestTrialId, isOver }),
      trial !== undefined && Command({ text: shell`det trial describe --metrics ${trial}` }),
    );
  },
);
