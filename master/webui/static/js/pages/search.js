// How the search of an experiment stands: rungs with the trials that climb them, or the points of a grid.

import { api, number, ok } from "../api.js";
import { count, shell, value } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { pending } from "../widgets/page.js";
import { Rungs } from "../widgets/rungs.js";
import { ShortTable } from "../widgets/short_table.js";
import { GridCover } from "./grid_cover.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {Schemas["Rung"]} Rung */
/** @typedef {Schemas["SearcherReply"]} Search */

const MOST_NAMED = 8;

export const SearchTab = component(
  /** @param {{ experiment: Schemas["Experiment"], isOver: boolean }} props */
  ({ experiment, isOver }) => {
    const { id } = experiment;
    const { data, error, refresh } = useLive(
      `experiment ${id} + trials ${id}: search`,
      (signal) => ok(api.GET("/api/v1/windlass/experiments/{id}/searcher", { params: { path: { id } }, signal })),
      { isOver: () => isOver },
    );
    if (!data) return pending({ error, refresh });
    const brackets = [...new Set(data.rungs.map((rung) => rung.bracket))];
    return h(
      "div",
      null,
      Facts({ facts: factsOf(data, experiment) }),
      brackets.length > 0 && ScaleChoice({}),
      brackets.map((bracket) =>
        Bracket({
          key: bracket,
          search: data,
          experiment: id,
          rungs: data.rungs.filter((rung) => rung.bracket === bracket),
          title: brackets.length > 1 ? `Rungs of bracket ${bracket}` : "Rungs",
        }),
      ),
      data.grid.length > 0 && GridCover({ experiment, axes: data.grid, isOver }),
      !brackets.length &&
        !data.grid.length &&
        h(
          "p",
          { class: "note" },
          "This search compares no trials while they train. ",
          h("a", { href: href(`experiments/${id}/hp`) }, "Hyperparameters"),
          " shows where it went.",
        ),
      Command({ text: shell`det experiment describe ${id}` }),
    );
  },
);

const ScaleChoice = component(
  /** @param {{}} _props */
  (_props) =>
    h(
      "label",
      null,
      h("input", {
        type: "checkbox",
        checked: address.value.query.get("scale") === "log",
        onChange: (event) => choose({ scale: event.currentTarget.checked ? "log" : "" }),
      }),
      " logarithmic",
    ),
);

/** @param {Search} search @param {Schemas["Experiment"]} experiment @returns {import("../widgets/facts.js").Fact[]} */
function factsOf(search, experiment) {
  return [
    ["Searcher", search.searcher],
    ["Metric", `${search.metric}, ${search.smallerIsBetter ? "smaller" : "larger"} is better`],
    [
      "Trials",
      search.maxTrials ? `${experiment.numTrials} of ${search.maxTrials}` : experiment.numTrials,
      "Made so far, of those that the search plans; trials with invalid hyperparameters are replaced",
    ],
    [
      "Goes on",
      search.divisor ? `one in ${search.divisor}` : "",
      "Of the trials that were ranked at a rung so far, the best; the first always goes on",
    ],
    ["Time metric", search.timeMetric, "The validation metric that says how far a trial is"],
  ];
}

const Bracket = component(
  /** @param {{ search: Search, experiment: number, rungs: Rung[], title: string }} props */
  ({ search, experiment, rungs, title }) => {
    const link = (/** @type {number | null} */ trial) => href(`experiments/${experiment}/trials/${trial}`);
    /** @type {import("../widgets/rungs.js").Column[]} */
    const columns = rungs.map((rung) => ({
      title: `${rung.units} ${search.timeMetric}`,
      cut: number(rung.toGoOn),
      isLast: rung.isLast,
      ranked: rung.entries.map((one) => ({
        id: one.requestId,
        title: `trial ${one.trialId}: ${value(number(one.metric)) || "failed"}, ${fate(one, rung)}`,
        href: link(one.trialId),
        metric: number(one.metric),
        wentOn: one.promoted,
      })),
      training: rung.training.map((one) => ({
        id: one.requestId,
        title: `trial ${one.trialId}: on its way to ${rung.units} ${search.timeMetric}`,
        href: link(one.trialId),
      })),
    }));
    const ranked = rungs.flatMap((rung) => rung.entries.map((one) => ({ rung, one })));
    return h(
      "div",
      null,
      Rungs({
        title,
        hint:
          `Each point is a trial at the ${search.metric} it had there. Green: it went on; hollow: it was stopped; ` +
          "dashed: what the next one has to reach",
        columns,
        isLog: address.value.query.get("scale") === "log",
        smallerIsBetter: search.smallerIsBetter,
        numbers: () => ({
          head: ["Trial", "Rung", search.timeMetric, search.metric, "Then"],
          links: ranked.map(({ one }) => link(one.trialId)),
          rows: ranked.map(({ rung, one }) => [one.trialId, rung.rung, rung.units, one.metric, fate(one, rung)]),
        }),
      }),
      ShortTable({
        label: title,
        columns: columnsOf(search, link),
        rows: [...rungs].reverse(),
        rowKey: (rung) => rung.rung,
        empty: "No rungs.",
      }),
    );
  },
);

/** @param {Schemas["RungEntry"]} entry @param {Rung} rung */
function fate(entry, rung) {
  if (entry.promoted) return "went on";
  if (entry.metric === null) return "failed";
  return rung.isLast ? "trained to the end" : "stopped";
}

/**
 * @param {Search} search
 * @param {(trial: number | null) => string} link
 * @returns {import("../widgets/short_table.js").ShortColumn<Rung>[]}
 */
function columnsOf(search, link) {
  const trial = (/** @type {number | null} */ id) => h("a", { key: id ?? "", href: link(id) }, id);
  return [
    { title: "Rung", cell: (rung) => `Rung ${rung.rung}` },
    {
      title: "At",
      hint: "Training at which trials are ranked there",
      cell: (rung) => `${rung.units} ${search.timeMetric}`,
    },
    {
      title: "Ranked",
      isNumber: true,
      hint: "Trials that have reported there, or failed",
      cell: (rung) => rung.entries.length,
    },
    {
      title: "Went on",
      isNumber: true,
      hint: "Trials that were among the best when they were ranked there",
      cell: (rung) => rung.entries.filter((one) => one.promoted).length,
    },
    {
      title: "Stopped",
      isNumber: true,
      hint: "Failed ones counted, and those that trained to the end at the last rung",
      cell: (rung) => rung.entries.filter((one) => !one.promoted).length,
    },
    {
      title: "Best",
      hint: `The best ${search.metric} there, and whose it is`,
      cell: ({ entries: [best] }) => best && [value(number(best.metric)) || "failed", ": trial ", trial(best.trialId)],
    },
    {
      title: "The next goes on",
      hint: "Nothing waits for others: a trial is ranked the moment it reports there",
      cell: (rung) => needed(rung, search),
    },
    {
      title: "On the way",
      hint: "Trials that train towards it",
      cell: ({ training }) => [
        count(training.length, "trial"),
        ...training.slice(0, MOST_NAMED).flatMap((one, at) => [at ? ", " : ": ", trial(one.trialId)]),
        training.length > MOST_NAMED ? ", …" : "",
      ],
    },
  ];
}

/** What a promotion waits for. @param {Rung} rung @param {Search} search */
function needed(rung, search) {
  if (rung.isLast) return "no: this is the last rung";
  const least = number(rung.toGoOn);
  if (least === null) return `with any ${search.metric}`;
  return `with ${search.metric} of ${value(least)} or ${search.smallerIsBetter ? "less" : "more"}`;
}
