// Costs of each day as bars, by what they were for or by who caused them.

import { component, h } from "../html.js";
import { usd } from "../money.js";
import { address, choose } from "../router.js";
import { StackedBars } from "../widgets/stacked_bars.js";

/** @typedef {import("../store.js").Schemas["CostRow"]} CostRow */
/** @typedef {{ key: "busyUsd" | "bootUsd" | "idleUsd" | "lostUsd" | "stoppedUsd", title: string }} Cause */

const DAY = /^\d{4}-\d\d-\d\d$/;
const MOST_USERS = 6;
const NOBODY = "(nobody)";
const REST = "(all others)";

export const CostDays = component(
  /** @param {{ rows: CostRow[], causes: Cause[] }} props `rows`: of days */
  ({ rows, causes }) => {
    const byUser = address.value.query.get("stack") === "user";
    const days = rows.filter((row) => DAY.test(row.name));
    const users = byUser ? dearest(days) : [];
    const named = (/** @type {CostRow} */ row) =>
      byUser ? amountsOf(row, users) : causes.map(({ key, title }) => ({ name: title, amount: row[key] }));
    if (!days.length) return null;
    return h(
      "div",
      null,
      h(
        "select",
        {
          "aria-label": "Divide days by",
          value: byUser ? "user" : "",
          onChange: (event) => choose({ stack: event.currentTarget.value }),
        },
        h("option", { value: "" }, "by cause"),
        h("option", { value: "user" }, "by user"),
      ),
      StackedBars({
        title: "USD by day",
        names: byUser ? [...users.map((user) => user || NOBODY), REST] : causes.map(({ title }) => title),
        bars: filled(days).map(({ name, row }) => ({ name, parts: row ? named(row) : [] })),
        said: (amount) => usd(amount, 2),
      }),
      days.length < rows.length &&
        h("p", { class: "note" }, "What was recorded before days were told apart is in the table alone."),
    );
  },
);

/** Those who cost most, in that order; empty: nobody. @param {CostRow[]} days */
function dearest(days) {
  const sums = new Map(/** @type {[string, number][]} */ ([]));
  for (const { byUser } of days) {
    for (const [user, amount] of Object.entries(byUser)) sums.set(user, (sums.get(user) ?? 0) + amount);
  }
  return [...sums.entries()]
    .sort((a, b) => b[1] - a[1])
    .map(([user]) => user)
    .slice(0, MOST_USERS);
}

/** @param {CostRow} row @param {string[]} users */
function amountsOf(row, users) {
  const parts = users.map((user) => ({ name: user || NOBODY, amount: row.byUser[user] ?? 0 }));
  return [...parts, { name: REST, amount: row.usd - parts.reduce((sum, { amount }) => sum + amount, 0) }];
}

/** Also the days between on which nothing was spent. @param {CostRow[]} days in order */
function filled(days) {
  const known = new Map(days.map((row) => [row.name, row]));
  const last = days.at(-1)?.name ?? "";
  /** @type {{ name: string, row: CostRow | undefined }[]} */
  const found = [];
  for (let name = days[0]?.name ?? ""; name && name <= last; name = dayAfter(name)) {
    found.push({ name, row: known.get(name) });
  }
  return found;
}

/** @param {string} day */
function dayAfter(day) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 10);
}
