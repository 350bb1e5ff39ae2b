// What pools, users and the whole cluster may cost, and what of it is spent.

import { api, number, ok } from "../api.js";
import { percent } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { usd } from "../money.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas["BudgetRow"]} BudgetRow */

/** @type {import("../widgets/short_table.js").ShortColumn<BudgetRow>[]} */
const COLUMNS = [
  {
    title: "Budget of",
    hint: "A pool, the cluster, or a user",
    cell: ({ kind, name }) => (kind === "cluster" ? "the cluster" : `${kind} ${name}`),
  },
  {
    title: "This month",
    hint: "What its machines cost since the month began, in UTC",
    isNumber: true,
    cell: (row) => usd(row.spentUsd),
  },
  {
    title: "Of",
    hint: "usd_per_month: what they may cost in a month",
    isNumber: true,
    cell: (row) => most(row.usdPerMonth),
  },
  { title: "Spent", hint: "The share of the month's budget that is spent", isNumber: true, cell: spent },
  {
    title: "Per hour now",
    hint: "What its machines cost at this moment",
    isNumber: true,
    cell: (row) => usd(row.usdPerHourNow),
  },
  {
    title: "Most per hour",
    hint: "usd_per_hour: what they may cost at a time",
    isNumber: true,
    cell: (row) => most(row.usdPerHour),
  },
];

/** @param {unknown} limit */
function most(limit) {
  return number(limit) === null ? "no limit" : usd(limit, 2);
}

/** @param {BudgetRow} row */
function spent(row) {
  if (!row.usdPerMonth) return row.usdPerMonth === 0 ? "all" : "";
  return percent(row.spentUsd / row.usdPerMonth);
}

export const Budgets = component(() => {
  const { data, error, refresh } = useLive("costs + fleet: budgets", (signal) =>
    ok(api.GET("/api/v1/windlass/fleet/budgets", { signal })),
  );
  if (!data) return pending({ error, refresh });
  return group(
    h("h2", null, "Budgets"),
    ShortTable({
      label: "Budgets",
      columns: COLUMNS,
      rows: data.budgets,
      rowKey: (row) => `${row.kind} ${row.name}`,
      empty: [
        "None is set. An administrator sets one in master.yaml: ",
        h("code", { key: "budget" }, "budget: {usd_per_month: 500}"),
        ", of the cluster or of a pool.",
      ],
    }),
  );
});
