// One trial: how it gets on, where it ran, and its parts, each with an address of its own.

import { useEffect } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { bytes, duration, percent, shell, value } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { Tabs } from "../widgets/tabs.js";
import { FromTrial } from "./experiment_again.js";
import { Checkpoints } from "./checkpoints.js";
import { Events } from "./events.js";
import { TrialLogs } from "./logs.js";
import { MetricCharts } from "./metrics.js";
import { Profiler } from "./profiler.js";
import { TrialRuns } from "./trial_runs.js";

/** @typedef {import("../store.js").Schemas["Trial"]} Trial */

const OVER = new Set(["STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR"]);
const TABS = [
  ["overview", "Overview"],
  ["metrics", "Metrics"],
  ["hyperparameters", "Hyperparameters"],
  ["logs", "Logs"],
  ["profiler", "Profiler"],
  ["checkpoints", "Checkpoints"],
  ["events", "Events"],
];
/** These fill the page. */
const FULL = new Set(["logs", "checkpoints", "events"]);

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const id = Number(params.trial);
    const tab = params.tab ?? "overview";
    const { data, error, refresh } = useLive(
      `trial ${id} + queue`,
      async (signal) =>
        (await ok(api.GET("/api/v1/trials/{trial_id}", { params: { path: { trial_id: id } }, signal }))).trial,
    );
    useEffect(() => void (document.title = `Trial ${params.trial} · Windlass`), [params.trial]);
    if (!data) return pending({ error, refresh });
    const isOver = OVER.has(data.state);
    return h(
      "section",
      { class: FULL.has(tab) ? "full" : "" },
      h(
        "p",
        { class: "above" },
        h("a", { href: href(`experiments/${data.experimentId}`) }, `Experiment ${data.experimentId}`),
      ),
      h(
        "div",
        { class: "title" },
        h("h1", null, `Trial ${data.id}`),
        State({ state: data.state }),
        FromTrial({ trial: data }),
      ),
      data.error && h("p", { class: "problem" }, data.error),
      data.waitingReason && h("p", { class: "note" }, data.waitingReason),
      Tabs({
        label: "Parts of the trial",
        current: tab,
        tabs: TABS.map(([part = "", title = ""]) => ({
          id: part,
          title,
          href: href(`experiments/${data.experimentId}/trials/${id}/${part}`),
        })),
      }),
      tab === "overview" && Overview({ trial: data }),
      tab === "metrics" && MetricCharts({ trials: [data], isOver }),
      tab === "hyperparameters" && Hyperparameters({ trial: data }),
      tab === "logs" && TrialLogs({ trial: id, isOver }),
      tab === "profiler" && Profiler({ trial: id, isOver }),
      tab === "checkpoints" && Checkpoints({ of: { kind: "trial", id } }),
      tab === "events" && Events({ of: { kind: "trial", id } }),
      !TABS.some(([part]) => part === tab) && h("p", { class: "empty" }, "There is no such part of a trial."),
    );
  },
);

const Overview = component(
  /** @param {{ trial: Trial }} props */
  ({ trial }) => {
    /** @type {import("../widgets/facts.js").Fact[]} */
    const facts = [
      ["Progress", percent(number(trial.progress))],
      ["Steps", trial.totalBatchesProcessed, "Completed, as training code reported"],
      ["Best metric", value(number(trial.searcherMetricValue)), "The best value of the searcher's metric"],
      ["Restarts", trial.restarts, "After failures of its own"],
      ["Started", moment(trial.startTime)],
      ["Ended", moment(trial.endTime)],
      ["Slot time", duration(trial.wallClockTime), "Slots held, times how long"],
      ["Checkpoints", `${trial.checkpointCount} (${bytes(number(trial.totalCheckpointSize))})`],
      ["Best checkpoint", trial.bestCheckpoint?.uuid ?? ""],
      ["Avoids", trial.avoids.join(", ")],
      ["Log policy", trial.logPolicyMatched ?? ""],
    ];
    return h("div", null, Facts({ facts }), TrialRuns({ trial: trial.id }));
  },
);

const Hyperparameters = component(
  /** @param {{ trial: Trial }} props */
  ({ trial }) => {
    const known = Object.entries(trial.hparams);
    return group(
      known.length
        ? h(
            "table",
            null,
            h(
              "tbody",
              null,
              known.map(([name, one]) =>
                h("tr", { key: name }, h("th", { scope: "row" }, name), h("td", null, value(one))),
              ),
            ),
          )
        : h("p", { class: "empty" }, "It has no hyperparameters."),
      Command({ text: shell`det trial describe ${trial.id}` }),
    );
  },
);
