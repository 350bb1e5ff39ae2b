// One experiment: how it gets on, its trials and their curves, its configuration, its logs.

import { useEffect } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { bytes, duration, percent, shell, value } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { Tabs } from "../widgets/tabs.js";
import { Actions } from "./experiment_actions.js";
import { TrialLogs } from "./logs.js";
import { MetricCharts } from "./metrics.js";
import { Trials } from "./trials.js";

/** @typedef {import("../store.js").Schemas["Experiment"]} Experiment */

const OVER = new Set(["STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR", "STATE_DELETED"]);
const MOST_CURVES = 50;
const TABS = [
  ["overview", "Overview"],
  ["trials", "Trials"],
  ["config", "Configuration"],
  ["logs", "Logs"],
];

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const id = Number(params.experiment);
    const tab = params.tab ?? "overview";
    const { data, error, refresh } = useLive(
      `experiment ${id} + queue`,
      async (signal) =>
        (await ok(api.GET("/api/v1/experiments/{experiment_id}", { params: { path: { experiment_id: id } }, signal })))
          .experiment,
    );
    const name = data?.name ?? `Experiment ${params.experiment}`;
    useEffect(() => void (document.title = `${name} · Windlass`), [name]);
    if (!data) return pending({ error, refresh });
    return h(
      "section",
      { class: tab === "trials" || tab === "logs" ? "full" : "" },
      h(
        "div",
        { class: "title" },
        h("h1", null, `${data.id} ${data.name}`),
        State({ state: data.state }),
        Actions({ selected: new Set([id]), done: refresh, phase: phaseOf(data) }),
      ),
      data.error && h("p", { class: "problem" }, data.error),
      data.waitingReason && h("p", { class: "note" }, data.waitingReason),
      Tabs({
        label: "Parts of the experiment",
        current: tab,
        tabs: TABS.map(([part = "", title = ""]) => ({ id: part, title, href: href(`experiments/${id}/${part}`) })),
      }),
      tab === "overview" && Overview({ experiment: data }),
      tab === "trials" && Trials({ experiment: data }),
      tab === "config" && Configuration({ experiment: data }),
      tab === "logs" && Logs({ experiment: data }),
      !TABS.some(([part]) => part === tab) && h("p", { class: "empty" }, "There is no such part of an experiment."),
    );
  },
);

/** @param {Experiment} experiment */
function phaseOf({ state }) {
  return OVER.has(state) ? "OVER" : state === "STATE_PAUSED" ? "PAUSED" : "ACTIVE";
}

const Overview = component(
  /** @param {{ experiment: Experiment }} props */
  ({ experiment }) => {
    const isOver = OVER.has(experiment.state);
    const { data } = useTrials(experiment.id, MOST_CURVES);
    const best = number(experiment.bestTrialSearcherMetric);
    /** @type {import("../widgets/facts.js").Fact[]} */
    const facts = [
      ["Progress", percent(number(experiment.progress))],
      [
        "Best",
        experiment.bestTrialId === null
          ? ""
          : h(
              "a",
              { href: href(`experiments/${experiment.id}/trials/${experiment.bestTrialId}`) },
              `trial ${experiment.bestTrialId}`,
              best === null ? "" : `: ${value(best)}`,
            ),
      ],
      ["Metric", experiment.searcherMetric],
      ["Searcher", experiment.searcherType],
      ["Trials", experiment.numTrials],
      ["Started", moment(experiment.startTime)],
      ["Duration", duration(experiment.duration)],
      ["User", experiment.displayName || experiment.username],
      [
        "Project",
        h(
          "a",
          { href: href(`projects/${experiment.projectId}/experiments`) },
          `${experiment.workspaceName} / ${experiment.projectName}`,
        ),
      ],
      ["Pool", experiment.resourcePool],
      ["Checkpoints", `${experiment.checkpointCount} (${bytes(number(experiment.checkpointSize))})`],
      ["Labels", experiment.labels.join(", ")],
    ];
    return h(
      "div",
      null,
      experiment.description && h("p", null, experiment.description),
      Facts({ facts }),
      data &&
        data.pagination.total > MOST_CURVES &&
        h("p", { class: "note" }, `Curves of the best ${MOST_CURVES} of ${data.pagination.total} trials.`),
      data && MetricCharts({ trials: data.trials, best: experiment.bestTrialId, isOver }),
      Command({ text: shell`det experiment describe ${experiment.id}` }),
    );
  },
);

/** @param {number} id @param {number} limit */
function useTrials(id, limit) {
  return useLive(`trials ${id}`, async (signal) =>
    ok(
      api.GET("/api/v1/experiments/{experiment_id}/trials", {
        params: { path: { experiment_id: id }, query: { limit, sortBy: "SORT_BY_BEST_VALIDATION_METRIC" } },
        signal,
      }),
    ),
  );
}

const Configuration = component(
  /** @param {{ experiment: Experiment }} props */
  ({ experiment }) =>
    h(
      "div",
      null,
      h("h2", null, "As it was submitted"),
      h("pre", { tabIndex: 0, "aria-label": "Configuration as submitted" }, experiment.originalConfig),
      h("h2", null, "As it runs, with templates, policies and defaults"),
      h("pre", { tabIndex: 0, "aria-label": "Configuration as it runs" }, JSON.stringify(experiment.config, null, 2)),
      Command({ text: shell`det experiment config ${experiment.id}` }),
    ),
);

const Logs = component(
  /** @param {{ experiment: Experiment }} props */
  ({ experiment }) => {
    const { data, error, refresh } = useTrials(experiment.id, MOST_CURVES);
    const chosen = Number(address.value.query.get("trial") ?? 0) || data?.trials[0]?.id;
    if (!data) return pending({ error, refresh });
    if (!chosen) return h("p", { class: "empty" }, "No trials yet, so no logs.");
    const trial = data.trials.find((one) => one.id === chosen);
    return h(
      "div",
      { class: "fills" },
      h(
        "label",
        null,
        "Trial ",
        h(
          "select",
          { value: String(chosen), onChange: (event) => choose({ trial: event.currentTarget.value }) },
          data.trials.map((one) => h("option", { key: one.id, value: String(one.id) }, one.id)),
        ),
      ),
      TrialLogs({ key: chosen, trial: chosen, isOver: trial !== undefined && OVER.has(trial.state) }),
    );
  },
);
