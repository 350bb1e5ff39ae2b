// One trial: how it gets on, its metrics, its log.

import { useEffect } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { bytes, duration, percent, shell, time, value } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { Tabs } from "../widgets/tabs.js";
import { TrialLogs } from "./logs.js";
import { MetricCharts } from "./metrics.js";

/** @typedef {import("../store.js").Schemas["Trial"]} Trial */

const OVER = new Set(["STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR"]);
const TABS = [
  ["overview", "Overview"],
  ["metrics", "Metrics"],
  ["logs", "Logs"],
];

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
      { class: tab === "logs" ? "full" : "" },
      h(
        "p",
        { class: "above" },
        h("a", { href: href(`experiments/${data.experimentId}`) }, `Experiment ${data.experimentId}`),
      ),
      h("div", { class: "title" }, h("h1", null, `Trial ${data.id}`), State({ state: data.state })),
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
      tab === "logs" && TrialLogs({ trial: id, isOver }),
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
      ["Steps", trial.totalBatchesProcessed],
      ["Best metric", value(number(trial.searcherMetricValue))],
      ["Restarts", trial.restarts],
      ["Started", moment(trial.startTime)],
      ["Ended", time(trial.endTime)],
      ["Slot time", duration(trial.wallClockTime), "Slots held, times how long"],
      ["Checkpoints", `${trial.checkpointCount} (${bytes(number(trial.totalCheckpointSize))})`],
      ["Best checkpoint", trial.bestCheckpoint?.uuid ?? ""],
      ["Avoids", trial.avoids.join(", ")],
      ["Log policy", trial.logPolicyMatched ?? ""],
    ];
    return h(
      "div",
      null,
      Facts({ facts }),
      h("h2", null, "Hyperparameters"),
      h(
        "table",
        null,
        h(
          "tbody",
          null,
          Object.entries(trial.hparams).map(([name, one]) =>
            h("tr", { key: name }, h("th", { scope: "row" }, name), h("td", null, value(one))),
          ),
        ),
      ),
      Command({ text: shell`det trial describe ${trial.id}` }),
    );
  },
);
