// Runs beside each other, what differs first: `compare?experiments=1,2` or `compare?trials=1,2`.

import { api, number, ok } from "../api.js";
import { count, duration, value } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { usd } from "../money.js";
import { address, choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Heading, pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";
import { State } from "../widgets/state.js";
import { Tabs } from "../widgets/tabs.js";
import { CodeDifference } from "./compare_code.js";
import { Matrix, isSame, leaves } from "./compare_matrix.js";
import { MetricCharts } from "./metrics.js";

/** @typedef {import("../store.js").Schemas["ComparedRun"]} Run */
/** @typedef {import("../store.js").Schemas["ComparisonReply"]} Comparison */

const MOST = 100;
const EVERY_MS = 10_000;
const MOST_SETTINGS = 2_000;
const TABS = [
  ["", "Settings"],
  ["curves", "Curves"],
  ["code", "Configuration and code"],
];

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const { query } = address.value;
    const experiments = idsOf(query.get("experiments"));
    const trials = experiments.length ? [] : idsOf(query.get("trials") ?? query.get("runs"));
    const all = query.get("all") === "1";
    const asked = experiments.length ? { experimentIds: experiments } : { trialIds: trials };
    const ids = [...experiments, ...trials];
    const live = useLive(
      `experiments: comparison ${JSON.stringify(asked)} ${all}`,
      async (signal) =>
        ids.length
          ? ok(
              api.GET("/api/v1/windlass/compare", {
                params: { query: { ...asked, all, limit: MOST_SETTINGS } },
                signal,
              }),
            )
          : null,
      { everyMs: EVERY_MS },
    );
    const title = `Compare ${count(ids.length, experiments.length ? "experiment" : "trial")}`;
    if (!ids.length) return group(Heading({ title: "Compare" }), Nothing({}));
    if (!live.data) return group(Heading({ title }), pending(live));
    const tab = query.get("tab") ?? "";
    return h(
      "section",
      null,
      Heading({ title }),
      Runs({ runs: live.data.runs, isOfTrials: !experiments.length }),
      Tabs({
        label: "What is compared",
        current: tab,
        tabs: TABS.map(([id = "", name = ""]) => ({
          id,
          title: name,
          href: href("compare", { ...Object.fromEntries(query), tab: id }),
        })),
      }),
      tab === "" && Settings({ found: live.data, all, isOfTrials: !experiments.length }),
      tab === "curves" && Curves({ runs: live.data.runs }),
      tab === "code" && CodeDifference({ experiments: experimentsOf(live.data.runs) }),
      experiments.length > 1 && tab !== "code" && Command({ text: `det experiment compare ${experiments.join(" ")}` }),
    );
  },
);

/** Each once. @param {string | null} text */
function idsOf(text) {
  const ids = (text ?? "").split(",").filter((one) => /^\d{1,10}$/.test(one));
  return [...new Set(ids.map(Number))].slice(0, MOST);
}

const Nothing = component(() =>
  h(
    "p",
    { class: "empty" },
    "Nothing is chosen. Select some with ",
    h("kbd", null, "x"),
    " in the list of ",
    h("a", { href: href("experiments") }, "experiments"),
    " or in that of an experiment's trials, and press ",
    h("kbd", null, "c"),
    ".",
  ),
);

/** @param {Run} run @param {boolean} isOfTrials */
function named({ experiment, trial }, isOfTrials) {
  return isOfTrials && trial
    ? { key: trial.id, title: `trial ${trial.id}`, href: href(`experiments/${experiment.id}/trials/${trial.id}`) }
    : { key: experiment.id, title: String(experiment.id), href: href(`experiments/${experiment.id}`) };
}

const Runs = component(
  /** @param {{ runs: Run[], isOfTrials: boolean }} props */
  ({ runs, isOfTrials }) =>
    ShortTable({
      label: "Runs",
      rows: runs,
      rowKey: (run) => named(run, isOfTrials).key,
      columns: [
        {
          title: isOfTrials ? "Trial" : "Experiment",
          cell: (run) => {
            const { title, href: page } = named(run, isOfTrials);
            return h("a", { href: page }, isOfTrials ? title : `${title} ${run.experiment.name}`);
          },
        },
        { title: "State", cell: (run) => State({ state: (isOfTrials && run.trial?.state) || run.experiment.state }) },
        {
          title: "Best metric",
          isNumber: true,
          hint: "The searcher's metric at its best",
          cell: ({ experiment, trial }) => {
            const best = number(trial?.searcherMetricValue);
            return best === null ? "" : `${experiment.searcherMetric ?? ""} ${value(best)}`;
          },
        },
        {
          title: "Steps",
          isNumber: true,
          hint: "Of the trial, or of the best one",
          cell: ({ trial }) => trial?.totalBatchesProcessed ?? "",
        },
        { title: "Duration", isNumber: true, cell: ({ experiment }) => duration(experiment.duration) },
        {
          title: "Cost",
          isNumber: true,
          hint: "On machines of elastic pools, so far",
          cell: (run) => (run.usd ? usd(run.usd) : ""),
        },
      ],
      empty: "There are none.",
    }),
);

const Settings = component(
  /** @param {{ found: Comparison, all: boolean, isOfTrials: boolean }} props */
  ({ found, all, isOfTrials }) => {
    const runs = found.runs.map((run) => named(run, isOfTrials));
    const shown = all ? found.total : found.differing;
    return h(
      "div",
      null,
      h(
        "p",
        { class: "note" },
        found.runs.length > 1 && `${found.differing} of ${found.total} settings differ. `,
        h(
          "label",
          null,
          h("input", {
            type: "checkbox",
            checked: all,
            onChange: (event) => choose({ all: event.currentTarget.checked ? "1" : "" }),
          }),
          " all settings",
        ),
      ),
      shown > found.settings.length &&
        h("p", { class: "note" }, `The first ${found.settings.length.toLocaleString()} of ${shown.toLocaleString()}.`),
      found.settings.length > 0 &&
        Matrix({
          label: "Settings",
          runs,
          rows: found.settings.map(({ path, values }) => ({ name: path.join("."), values })),
        }),
      !isOfTrials && BestHyperparameters({ runs: found.runs }),
    );
  },
);

const BestHyperparameters = component(
  /** @param {{ runs: Run[] }} props */
  ({ runs }) => {
    const trained = runs.filter(({ trial }) => trial !== null);
    const each = trained.map(({ trial }) => new Map(leaves(trial?.hparams ?? {})));
    const names = [...new Set(each.flatMap((one) => [...one.keys()]))].sort();
    const rows = names
      .map((name) => ({ name, values: each.map((one) => (one.has(name) ? { value: one.get(name) } : null)) }))
      .filter(({ values }) => values.some((one) => !isSame(one, values[0] ?? null)));
    if (!rows.length) return null;
    return group(
      h("h2", null, "Hyperparameters of the best trials that differ"),
      Matrix({ label: "Hyperparameters", runs: trained.map((run) => named(run, false)), rows }),
    );
  },
);

const Curves = component(
  /** @param {{ runs: Run[] }} props */
  ({ runs }) => {
    const trials = runs.flatMap(({ trial }) => trial ?? []);
    if (!trials.length) return h("p", { class: "empty" }, "None of them has a trial with a metric yet.");
    return MetricCharts({ trials, isOver: false });
  },
);

/** @param {Run[]} runs */
function experimentsOf(runs) {
  return [...new Map(runs.map(({ experiment }) => [experiment.id, experiment])).values()];
}
