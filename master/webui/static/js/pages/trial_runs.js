// The runs of a trial on an axis of time: waited, started, asked to leave, ended; on which machines, at what price.

import { api, ok } from "../api.js";
import { count, duration, shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { usd } from "../money.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { moment } from "../widgets/moment.js";
import { ShortTable } from "../widgets/short_table.js";
import { State } from "../widgets/state.js";
import { Timeline, colourName } from "../widgets/timeline.js";

/** @typedef {import("../store.js").Schemas["RunOfTrial"] & { until: string }} Run `until`: its end, or now */
/** @typedef {import("../store.js").Schemas["MachineOfRun"]} Machine */
/** @typedef {import("../widgets/timeline.js").Span} Span */

const MOST = 200;
const OWN = "not bought by the cluster";
/** @type {Record<NonNullable<Run["outcome"]>, string>} */
const OUTCOMES = {
  finished: "COMPLETED",
  preempted: "PREEMPTED",
  killed: "CANCELED",
  failed: "ERROR",
  transient: "LOST",
  withdrawn: "CANCELED",
};

/** @type {import("../widgets/short_table.js").ShortColumn<Run>[]} */
const COLUMNS = [
  { title: "Run", cell: (one) => one.runId, isNumber: true },
  { title: "State", cell: (one) => State({ state: one.outcome ? OUTCOMES[one.outcome] : one.state }) },
  {
    title: "Waited",
    hint: "From the request for slots to the start",
    cell: (one) => between(one.requestedAt, one.startedAt ?? one.until),
  },
  { title: "Started", cell: (one) => moment(one.startedAt) },
  {
    title: "Ran",
    hint: "From the start to the end",
    cell: (one) => (one.startedAt ? between(one.startedAt, one.until) : ""),
  },
  { title: "Machines", cell: (one) => one.machines.map((each) => h("div", { key: each.agentId }, machine(each))) },
  {
    title: "Price",
    hint: "Of a whole machine for an hour",
    cell: (one) => one.machines.map((each) => h("div", { key: each.agentId }, price(each))),
  },
  { title: "Why", cell: (one) => why(one) },
];

export const TrialRuns = component(
  /** @param {{ trial: number }} props */
  ({ trial }) => {
    const { data } = useLive(`trial ${trial}: runs`, (signal) =>
      ok(
        api.GET("/api/v1/windlass/trials/{trial_id}/allocations", {
          params: { path: { trial_id: trial }, query: { limit: MOST, orderBy: "ORDER_BY_DESC" } },
          signal,
        }),
      ),
    );
    if (!data) return null;
    const runs = data.allocations.map((one) => ({ ...one, until: one.endedAt ?? data.now }));
    const markets = [...new Set(runs.map(marketOf))].sort();
    return group(
      h("h2", null, "Runs"),
      data.pagination.total > runs.length &&
        h("p", { class: "note" }, `The newest ${runs.length} of ${data.pagination.total}.`),
      runs.length > 0 && [
        h(
          "ul",
          { key: "legend", class: "legend", "aria-label": "Legend" },
          ["Waits: dashed", "Pulls or starts: half height", "Runs: full", "Leaves: hatched"].map((one) =>
            h("li", { key: one }, one),
          ),
          markets.map((market) => h("li", { key: market }, `${colourName(markets, market)}: ${market}`)),
        ),
        Drawn({ key: "drawn", runs, markets }),
      ],
      ShortTable({
        label: "Runs",
        columns: COLUMNS,
        rows: runs,
        rowKey: (one) => one.allocationId,
        empty: "No run yet.",
      }),
      Command({ text: shell`det trial allocations ${trial}` }),
    );
  },
);

const Drawn = component(
  /** @param {{ runs: Run[], markets: string[] }} props */
  ({ runs, markets }) => {
    const from = Math.min(...runs.map((one) => Date.parse(one.requestedAt)));
    const to = Math.max(...runs.map((one) => Date.parse(one.until)), from + 1000);
    const bars = runs.map((one) => ({
      id: one.allocationId,
      title: `run ${one.runId}`,
      group: marketOf(one),
      hint: why(one),
      spans: spansOf(one),
    }));
    return Timeline({ bars, groups: markets, from, to });
  },
);

/** @param {Run} run @returns {Span[]} */
function spansOf(run) {
  const until = Date.parse(run.until);
  /** @param {string | null} at */
  const moment = (at) => (at ? Date.parse(at) : until);
  const started = moment(run.startedAt);
  const pulled = run.pulledAt ? Math.max(started, Date.parse(run.pulledAt)) : started;
  const leaves = Math.max(pulled, moment(run.preemptionRequestedAt));
  /** @type {[number, number, Span["look"], string][]} */
  const parts = [
    [Date.parse(run.requestedAt), started, "outline", "waited"],
    [started, pulled, "low", "pulled its image and started"],
    [pulled, leaves, "full", `ran on ${run.machines.map((one) => one.agentId).join(", ")}`],
    [leaves, until, "hatched", `was asked to leave: ${run.preemptionReason}`],
  ];
  return parts
    .filter(([first, last]) => last > first)
    .map(([start, end, look, what]) => ({ start, end, look, hint: `${what}, ${duration((end - start) / 1000)}` }));
}

/** @param {Run} run */
function marketOf({ machines }) {
  return machines[0]?.offer?.market.replaceAll("_", "-") ?? OWN;
}

/** @param {string} first @param {string} last */
function between(first, last) {
  return duration((Date.parse(last) - Date.parse(first)) / 1000);
}

/** @param {Machine} machine */
function machine({ agentId, slots, offer }) {
  const kind = offer ? `, ${offer.instanceType} ${offer.market.replaceAll("_", "-")}` : "";
  return [h("a", { href: href(`agents/${encodeURIComponent(agentId)}`) }, agentId), ` ${count(slots, "slot")}${kind}`];
}

/** @param {Machine} machine */
function price({ offer, usdPerHour }) {
  return offer ? `${usd(usdPerHour)} an hour` : "";
}

/** @param {Run} run */
function why({ exitReason, preemptionReason, fellBackBecause }) {
  const asked = preemptionReason && !exitReason.includes(preemptionReason) ? `asked to leave: ${preemptionReason}` : "";
  const other = fellBackBecause && `in another pool: ${fellBackBecause}`;
  return [exitReason, asked, other].filter(Boolean).join("; ");
}
