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
import { MOST } from "./compare_button.js";
import { CodeDifference } from "./compare_code.js";
import { Matrix, isSame, leaves } from "./compare_matrix.js";
import { MetricCharts } from "./metrics.js";

/** @typedef {import("../store.js").Schemas["ComparedRun"]} Run */
/** @typedef {import("../store.js").Schemas["ComparisonReply"]} Comparison */
/** @typedef {import("../store.js").Schemas["Trial"]} Trial */

const EVERY_MS = 10_000;
const MOST_SETTINGS = 2_000;
const TABS = [
  ["", "Settings"],
  ["curves", "Metrics"],
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
      tab === "curves" && Metrics({ runs: live.data.runs, isOfTrials: !experiments.length }),
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
        {
          title: "Duration",
          isNumber: true,
          hint: "Of the experiment, from its start to its end, or to now",
          cell: ({ experiment }) => duration(experiment.duration),
        },
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
      !isOfTrials &&
        OfTrials({
          title: "Hyperparameters of the best trials that differ",
          runs: found.runs,
          held: (trial) => trial.hparams,
          isDiffering: true,
        }),
    );
  },
);

/** What trials have by name, beside each other. Runs without a trial are left out. */
const OfTrials = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {Run[]} props.runs
   * @param {(trial: Trial) => Record<string, unknown>} props.held
   * @param {boolean} [props.isOfTrials] whether trials were asked for, and not experiments
   * @param {boolean} [props.isDiffering] only what is not the same in all
   */
  ({ title, runs, held, isOfTrials = false, isDiffering = false }) => {
    const trained = runs.flatMap((run) => (run.trial ? { run, names: new Map(leaves(held(run.trial))) } : []));
    const rows = [...new Set(trained.flatMap(({ names }) => [...names.keys()]))]
      .sort()
      .map((name) => ({
        name,
        values: trained.map(({ names }) => (names.has(name) ? { value: names.get(name) } : null)),
      }))
      .filter(({ values }) => !isDiffering || values.some((one) => !isSame(one, values[0] ?? null)));
    if (!rows.length) return null;
    return group(
      h("h2", null, title),
      Matrix({ label: title, runs: trained.map(({ run }) => named(run, isOfTrials)), rows }),
    );
  },
);

const Metrics = component(
  /** @param {{ runs: Run[], isOfTrials: boolean }} props */
  ({ runs, isOfTrials }) => {
    const trials = runs.flatMap(({ trial }) => trial ?? []);
    if (!trials.length) return h("p", { class: "empty" }, "None of them has a trial with a metric yet.");
    return h(
      "div",
      null,
      OfTrials({
        title: "Metrics of the best validation",
        runs,
        held: (trial) => trial.bestValidation?.metrics.avgMetrics ?? {},
        isOfTrials,
      }),
      h("h2", null, "Curves"),
      MetricCharts({ trials, isOver: false }),
    );
  },
);

/** @param {Run[]} runs */
function experimentsOf(runs) {
  return [...new Map(runs.map(({ experiment }) => [experiment.id, experiment])).values()];
}
