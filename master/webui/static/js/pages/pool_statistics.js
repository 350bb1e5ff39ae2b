// How a pool was used in the last month: slot hours and waits by day.

import { api, number, ok } from "../api.js";
import { duration, shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas} Schemas */

const DAYS = 30;
const DAY_MS = 86_400_000;
const EVERY_MS = 60_000;

/** @param {string} moment */
function day(moment) {
  return moment.slice(0, 10);
}

/** @param {AbortSignal} signal @param {string} pool */
async function read(signal, pool) {
  const today = Date.now();
  const query = {
    startDate: day(new Date(today - (DAYS - 1) * DAY_MS).toISOString()),
    endDate: day(new Date(today).toISOString()),
    period: /** @type {const} */ ("RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"),
  };
  const [used, queues] = await Promise.all([
    ok(api.GET("/api/v1/resources/allocation/aggregated", { params: { query }, signal })),
    ok(api.GET("/api/v1/job-queues/stats", { params: { query: { resourcePools: [pool] } }, signal })),
  ]);
  const queue = queues.results.find((one) => one.resourcePool === pool);
  const waits = new Map(queue?.aggregates.map((one) => [day(one.periodStart), one.seconds]));
  const hours = new Map(
    used.resourceEntries.map((one) => [day(one.periodStart), (number(one.byResourcePool[pool]) ?? 0) / 3600]),
  );
  const days = [...new Set([...hours.keys(), ...waits.keys()])].sort().reverse();
  return {
    from: query.startDate,
    to: query.endDate,
    queue: queue?.stats,
    days: days.map((one) => ({ day: one, hours: hours.get(one) ?? 0, wait: waits.get(one) ?? null })),
  };
}

export const PoolStatistics = component(
  /** @param {{ pool: Schemas["ResourcePool"] }} props */
  ({ pool }) => {
    const { data, error, refresh } = useLive(`queue: statistics of ${pool.name}`, (signal) => read(signal, pool.name), {
      everyMs: EVERY_MS,
    });
    if (!data) return pending({ error, refresh });
    return group(
      Facts({
        facts: [
          ["Waiting now", data.queue?.queuedCount ?? null, "Jobs that hold no slots"],
          ["With slots now", data.queue?.scheduledCount ?? null, "Jobs that hold slots"],
        ],
      }),
      ShortTable({
        label: "By day",
        rows: data.days.filter((one) => one.hours > 0 || one.wait !== null),
        rowKey: (one) => one.day,
        columns: [
          { title: "Day, in UTC", cell: (one) => one.day },
          {
            title: "Slot hours",
            isNumber: true,
            hint: "Of work that has ended, or runs, each slot counted",
            cell: (one) => one.hours.toFixed(2),
          },
          {
            title: "Mean wait",
            isNumber: true,
            hint: "From being asked for to getting slots, of runs that got them on that day",
            cell: (one) => (one.wait === null ? "" : duration(one.wait)),
          },
        ],
        empty: `Nothing ran or waited here in the last ${DAYS} days.`,
      }),
      h(
        "p",
        { class: "note" },
        "By user and label, and over any time: ",
        h("a", { href: href("clusters/historical-usage", { by: "pool" }) }, "usage"),
        ".",
      ),
      Command({ text: shell`det resources aggregated ${data.from} ${data.to}` }),
    );
  },
);
