// Slot hours of past work, by day, user, label or pool: `clusters/historical-usage`.

import { api, number, ok } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { ROOT, address, choose } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { Table } from "../widgets/table.js";
import { Typed } from "../widgets/typed.js";
import { listed } from "../widgets/windows.js";
import { FleetPage } from "./fleet_tabs.js";

/** @typedef {import("../store.js").Schemas["AggregatedEntry"]} Entry */
/** @typedef {{ name: string, seconds: number }} Used */

const PERIODS = /** @type {const} */ ({ day: "DAILY", month: "MONTHLY" });
const GROUPS = /** @type {const} */ ([
  { id: "user", title: "User", of: "byUsername" },
  { id: "label", title: "Label", of: "byExperimentLabel" },
  { id: "pool", title: "Pool", of: "byResourcePool" },
  { id: "day", title: "Day", of: null },
  { id: "month", title: "Month", of: null },
]);
const DAYS = 30;
const DAY_MS = 86_400_000;
const EVERY_MS = 60_000;

/** @param {Date} moment */
function day(moment) {
  return moment.toISOString().slice(0, 10);
}

/** @param {unknown} seconds */
function hours(seconds) {
  return ((number(seconds) ?? 0) / 3600).toFixed(2);
}

/**
 * The largest first; days in order.
 *
 * @param {Entry[]} entries
 * @param {typeof GROUPS[number]} by
 * @returns {Used[]}
 */
function summed(entries, by) {
  const of = by.of;
  if (of === null) return entries.map((one) => ({ name: one.periodStart, seconds: one.seconds }));
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const entry of entries) {
    for (const [name, seconds] of Object.entries(entry[of])) sums.set(name, (sums.get(name) ?? 0) + seconds);
  }
  return [...sums].map(([name, seconds]) => ({ name, seconds })).sort((a, b) => b.seconds - a.seconds);
}

/** @param {string} title @param {number} all @returns {import("../widgets/table.js").Column<Used>[]} */
function columnsOf(title, all) {
  return [
    { id: "name", title, width: "minmax(160px, 2fr)", cell: (one) => one.name || "(none)" },
    {
      id: "hours",
      title: "Slot hours",
      width: "140px",
      isNumber: true,
      hint: "Slots of all allocations times the hours that they were held",
      cell: (one) => hours(one.seconds),
    },
    {
      id: "share",
      title: "Share",
      width: "100px",
      isNumber: true,
      hint: "Of all slot hours of this time. Work with several labels counts for each of them.",
      cell: (one) => (all ? `${((100 * one.seconds) / all).toFixed(1)}%` : ""),
    },
  ];
}

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const { query } = address.value;
    const now = new Date();
    const from = query.get("from") || day(new Date(now.getTime() - (DAYS - 1) * DAY_MS));
    const to = query.get("to") || day(now);
    const by = GROUPS.find(({ id }) => id === query.get("by")) ?? GROUPS[0];
    const period = /** @type {const} */ (
      `RESOURCE_ALLOCATION_AGGREGATION_PERIOD_${by.id === "month" ? PERIODS.month : PERIODS.day}`
    );
    const asked = { startDate: from, endDate: to, period };
    const { data, error, refresh } = useLive(
      `costs: usage ${JSON.stringify(asked)}`,
      (signal) => ok(api.GET("/api/v1/resources/allocation/aggregated", { params: { query: asked }, signal })),
      { everyMs: EVERY_MS },
    );
    const all = data ? data.resourceEntries.reduce((sum, one) => sum + one.seconds, 0) : 0;
    const csv = `${ROOT}resources/allocation/aggregated?${new URLSearchParams(asked)}`;
    const end = new Date(Date.parse(to) + DAY_MS);
    const each = `${ROOT}resources/allocation/allocations-csv?${new URLSearchParams({
      timestamp_after: `${from}T00:00:00Z`,
      timestamp_before: `${Number.isNaN(end.getTime()) ? to : day(end)}T00:00:00Z`,
    })}`;
    return FleetPage({
      current: "clusters/historical-usage",
      title: "Historical usage",
      controls: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        When({ name: "from", label: "From", value: from }),
        When({ name: "to", label: "Until", value: to }),
        h(
          "select",
          { "aria-label": "Sum up by", value: by.id, onChange: (event) => choose({ by: event.currentTarget.value }) },
          GROUPS.map(({ id }) => h("option", { key: id, value: id }, `by ${id}`)),
        ),
      ),
      children: group(
        data &&
          Facts({
            facts: [["Slot hours", hours(all), "Of all work that you may see, from the first to the last day, in UTC"]],
          }),
        Table({
          label: "Usage",
          columns: columnsOf(by.title, all),
          source: { ...listed(data && all ? summed(data.resourceEntries, by) : data && [], error), refresh },
          rowKey: (one) => one.name,
          empty: h("p", null, "No work held slots in this time. Choose an earlier first day."),
        }),
        h(
          "p",
          null,
          h("a", { href: csv, download: `usage-${from}-${to}.csv` }, "Download as CSV"),
          " · ",
          h("a", { href: each, download: `allocations-${from}-${to}.csv` }, "each allocation as CSV"),
        ),
        Command({ text: shell`det resources aggregated ${from} ${to}` }),
      ),
    });
  },
);

const When = component(
  /** @param {{ name: "from" | "to", label: string, value: string }} props */
  ({ name, label, value }) =>
    h(
      "label",
      null,
      `${label} `,
      Typed({ value, onChange: (day) => choose({ [name]: day }), attributes: { type: "date" } }),
    ),
);
