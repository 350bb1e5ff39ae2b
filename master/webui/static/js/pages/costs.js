// What machines of elastic pools cost, for whom and why, and what is left of budgets: `costs`.

import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { months, usd } from "../money.js";
import { address, choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { Problem } from "../widgets/problem.js";
import { Table } from "../widgets/table.js";
import { listed } from "../widgets/windows.js";
import { Budgets } from "./budgets.js";
import { FleetPage } from "./fleet_tabs.js";

/** @typedef {import("../store.js").Schemas["CostRow"]} CostRow */
/** @typedef {import("../store.js").Schemas["GroupBy"]} GroupBy */

const GROUPS = /** @type {const} */ (["user", "project", "pool", "experiment", "job", "instance", "month"]);
const NOBODY = "(nobody)";
const MONTHS = 24;
const EVERY_MS = 10_000;

/** @type {{ key: "busyUsd" | "bootUsd" | "idleUsd" | "lostUsd" | "stoppedUsd", title: string, hint: string }[]} */
const CAUSES = [
  { key: "busyUsd", title: "Busy", hint: "While a job held slots of the machine: the share of its slots" },
  { key: "bootUsd", title: "Boot", hint: "From the launch until its agent had connected" },
  { key: "idleUsd", title: "Idle", hint: "Slots that nobody held, and machines on their way out" },
  { key: "lostUsd", title: "Lost", hint: "Its agent never connected, or was silent until its end" },
  { key: "stoppedUsd", title: "Stopped", hint: "Disks, while their machines were stopped" },
];

/** @param {GroupBy} by @returns {import("../widgets/table.js").Column<CostRow>[]} */
function columnsOf(by) {
  return [
    {
      id: "name",
      title: by[0]?.toUpperCase() + by.slice(1),
      width: "minmax(160px, 2fr)",
      cell: (row) =>
        by === "experiment" && /^\d+$/.test(row.name)
          ? h("a", { href: href(`experiments/${row.name}`), tabIndex: -1 }, row.name)
          : row.name || NOBODY,
    },
    {
      id: "usd",
      title: "USD",
      width: "110px",
      isNumber: true,
      hint: "The sum of all causes",
      cell: (row) => usd(row.usd),
    },
    ...CAUSES.map(({ key, title, hint }) => ({
      id: key,
      title,
      hint,
      width: "100px",
      isNumber: true,
      cell: (/** @type {CostRow} */ row) => usd(row[key]),
    })),
    {
      id: "hours",
      title: "Machine hours",
      width: "120px",
      isNumber: true,
      isMinor: true,
      hint: "Half of a machine's slots for two hours are one",
      cell: (row) => row.machineHours.toFixed(2),
    },
  ];
}

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const { query } = address.value;
    const by = GROUPS.find((one) => one === query.get("by")) ?? "user";
    const month = query.get("month") ?? "";
    const { data, error, refresh } = useLive(
      `costs: by ${by} of ${month}`,
      (signal) =>
        ok(
          api.GET("/api/v1/windlass/fleet/costs", {
            params: { query: { by, ...(month ? { month } : {}) } },
            signal,
          }),
        ),
      { everyMs: EVERY_MS },
    );
    const shown = month || data?.month || "";
    return FleetPage({
      current: "costs",
      title: "Costs",
      controls: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        h(
          "select",
          { "aria-label": "Sum up by", value: by, onChange: (event) => choose({ by: event.currentTarget.value }) },
          GROUPS.map((one) => h("option", { key: one, value: one }, `by ${one}`)),
        ),
        by !== "month" &&
          h(
            "select",
            {
              "aria-label": "Month, in UTC",
              value: month,
              onChange: (event) => choose({ month: event.currentTarget.value }),
            },
            h("option", { value: "" }, "this month"),
            months(MONTHS).map((one) => h("option", { key: one, value: one }, one)),
            h("option", { value: "all" }, "all months"),
          ),
      ),
      children: group(
        Fleet({}),
        Budgets({}),
        h("h2", null, by === "month" || shown === "all" ? "All months" : `${shown || "This month"} (UTC)`),
        data &&
          Facts({
            facts: [
              ["All of it", usd(data.total.usd), "The sum of the rows below"],
              ...CAUSES.map(
                ({ key, title, hint }) =>
                  /** @type {import("../widgets/facts.js").Fact} */ ([title, usd(data.total[key]), hint]),
              ),
            ],
          }),
        error && !data
          ? Problem({ error, retry: refresh })
          : Table({
              label: "Costs",
              columns: columnsOf(by),
              source: listed(data?.rows ?? null),
              rowKey: (row) => row.name,
              empty: h(
                "p",
                null,
                "No machine of an elastic pool cost anything in this time. ",
                "Machines that somebody else pays for, such as those of static pools, have no price here.",
              ),
            }),
        Command({
          text:
            month && by !== "month"
              ? shell`det fleet costs --by ${by} --month ${month}`
              : shell`det fleet costs --by ${by}`,
        }),
      ),
    });
  },
);

const Fleet = component(() => {
  const { data } = useLive("fleet", (signal) => ok(api.GET("/api/v1/windlass/fleet", { signal })));
  if (!data?.firstLaunchAt) return null;
  const saved = data.alwaysOnUsd - data.usd;
  return group(
    h("h2", null, "Since the first launch"),
    Facts({
      facts: [
        ["Now", `${usd(data.usdPerHour)} per hour`, "What all machines that exist cost together"],
        ["So far", usd(data.usd), "Of all machines since the first launch, those that are gone included"],
        ["Always on", usd(data.alwaysOnUsd), "A fleet of the most machines there were at once that never ends"],
        [
          "Saved",
          data.alwaysOnUsd > 0 ? `${usd(saved)} (${Math.round((100 * saved) / data.alwaysOnUsd)}%)` : "",
          "Always on, less what it cost so far",
        ],
      ],
    }),
    Command({ text: "det fleet costs" }),
  );
});
