// What would become of runs, and the machines that would be launched: of a plan, and of what somebody would submit.

import { count, duration } from "../format.js";
import { component, group, h } from "../html.js";
import { usd } from "../money.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {Schemas["Launch"]} Launch */

/** @type {Record<Schemas["PlanOutcome"], string>} */
const THERE = {
  starts: "on free slots",
  launches: "where machines would be launched",
  waits: "where it would wait, too",
};

/** @param {{ runs: number, slots: number, pool: string }} one */
export function runsOf({ runs, slots, pool }) {
  return `${count(runs, "run")} of ${count(slots, "slot")} in pool ${pool}`;
}

/** @param {Schemas["AskedRuns"]} asked */
export function fateOf({ outcome, reason, fallBack }) {
  if (outcome === "starts") return "would start on free slots";
  if (outcome === "launches") return "machines would be launched";
  const why = `would wait: ${reason?.text ?? "nobody knows for how long"}`;
  if (!fallBack) return why;
  const when = fallBack.afterS ? `after ${duration(fallBack.afterS)}` : "at once";
  return `${why}; ${when} it would go to pool ${fallBack.pool}, ${THERE[fallBack.outcome]}`;
}

/** @type {import("../widgets/short_table.js").ShortColumn<Launch & { at: number }>[]} */
const COLUMNS = [
  { title: "Offer", cell: (one) => one.offer },
  { title: "Pool", cell: (one) => one.pool },
  { title: "Machines", isNumber: true, hint: "Of this offer", cell: (one) => one.machines },
  { title: "Slots", isNumber: true, hint: "Of all these machines", cell: (one) => one.slots },
  { title: "USD/h", isNumber: true, hint: "Of all these machines", cell: (one) => usd(one.usdPerHour, 2) },
  {
    title: "Ready in",
    isNumber: true,
    hint: "From the launch until their agents have connected, as it usually takes",
    cell: (one) => duration(one.readyInS),
  },
  { title: "For", cell: (one) => (one.runs ? count(one.runs, "run") : "the pool's minimum") },
];

export const Launches = component(
  /** @param {{ plan: Schemas["PlanReply"], more?: typeof COLUMNS }} props */
  ({ plan: { launches, usdPerHour }, more = [] }) =>
    group(
      ShortTable({
        label: "Launches",
        rows: launches.map((launch, at) => ({ ...launch, at })),
        rowKey: (one) => one.at,
        columns: [...COLUMNS, ...more],
        empty: "Nothing would be launched now.",
      }),
      launches.length > 0 && h("p", null, `Together ${usd(usdPerHour, 2)} per hour, as long as they run.`),
    ),
);
