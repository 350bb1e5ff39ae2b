// What pools, users and the whole cluster may cost, and what of it is spent.

import { api, number, ok } from "../api.js";
import { percent } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { usd } from "../money.js";
import { Problem } from "../widgets/problem.js";

/** @typedef {import("../store.js").Schemas["BudgetRow"]} BudgetRow */

const COLUMNS = [
  { title: "Budget of", hint: "A pool, the cluster, or a user" },
  { title: "This month", hint: "What its machines cost since the month began, in UTC" },
  { title: "Of", hint: "usd_per_month: what they may cost in a month" },
  { title: "Spent", hint: "The share of the month's budget that is spent" },
  { title: "Per hour now", hint: "What its machines cost at this moment" },
  { title: "Most per hour", hint: "usd_per_hour: what they may cost at a time" },
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
  const { data, error, refresh } = useLive("budgets", (signal) =>
    ok(api.GET("/api/v1/windlass/fleet/budgets", { signal })),
  );
  if (!data) return error ? Problem({ error, retry: refresh }) : null;
  return group(
    h("h2", null, "Budgets"),
    data.budgets.length
      ? h(
          "div",
          { class: "scrolls", tabIndex: 0, role: "region", "aria-label": "Budgets" },
          h(
            "table",
            null,
            h(
              "thead",
              null,
              h(
                "tr",
                null,
                COLUMNS.map(({ title, hint }) => h("th", { key: title, scope: "col", title: hint }, title)),
              ),
            ),
            h(
              "tbody",
              null,
              data.budgets.map((row) =>
                h(
                  "tr",
                  { key: `${row.kind} ${row.name}` },
                  h("th", { scope: "row" }, row.kind === "cluster" ? "the cluster" : `${row.kind} ${row.name}`),
                  [
                    usd(row.spentUsd),
                    most(row.usdPerMonth),
                    spent(row),
                    usd(row.usdPerHourNow),
                    most(row.usdPerHour),
                  ].map((text, at) => h("td", { key: at, class: "number" }, text)),
                ),
              ),
            ),
          ),
        )
      : h(
          "p",
          { class: "note" },
          "None is set. An administrator sets one in master.yaml: ",
          h("code", null, "budget: {usd_per_month: 500}"),
          ", of the cluster or of a pool.",
        ),
  );
});
