// One resource pool: its jobs, how it was used, how it is set up, whose it is: `resourcepool/NAME`.

import { useEffect } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { pending } from "../widgets/page.js";
import { Table } from "../widgets/table.js";
import { Tabs } from "../widgets/tabs.js";
import { useWindows } from "../widgets/windows.js";
import { PoolBindings } from "./pool_bindings.js";
import { PoolConfiguration } from "./pool_configuration.js";
import { PoolStatistics } from "./pool_statistics.js";
import { COLUMNS } from "./queue.js";

/** @typedef {import("../store.js").Schemas["ResourcePool"]} Pool */

const TITLES = /** @type {const} */ ({
  active: "Active",
  queued: "Queued",
  stats: "Statistics",
  configuration: "Configuration",
  bindings: "Bindings",
});
/** @typedef {keyof typeof TITLES} Tab */

/** @param {string | undefined} word @returns {Tab} */
function tabOf(word) {
  return word !== undefined && word in TITLES ? /** @type {Tab} */ (word) : "active";
}

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const name = params.pool ?? "";
    const { data, error, refresh } = useLive("cluster: names of pools", (signal) =>
      ok(api.GET("/api/v1/resource-pools", { signal })),
    );
    useEffect(() => void (document.title = `Pool ${name} · Windlass`), [name]);
    if (!data) return pending({ error, refresh });
    const pool = data.resourcePools.find((one) => one.name === name);
    if (!pool) {
      return h(
        "section",
        null,
        h("h1", null, "Resource pool"),
        h("p", { class: "empty" }, `There is no pool ${name}.`),
        h("p", null, h("a", { href: href("clusters") }, "All pools")),
      );
    }
    return Shown({ pool, tab: tabOf(params.tab) });
  },
);

const Shown = component(
  /** @param {{ pool: Pool, tab: Tab }} props */
  ({ pool, tab }) => {
    const base = `resourcepool/${encodeURIComponent(pool.name)}`;
    const tabs = Object.entries(TITLES).map(([id, title]) => ({ id, title, href: href(`${base}/${id}`) }));
    return h(
      "section",
      { class: "full" },
      h(
        "div",
        { class: "title" },
        h("h1", null, `Pool ${pool.name}`),
        h(
          "span",
          { class: "note", title: "Slots of its agents that are connected and enabled, and how many of them are held" },
          `${pool.slotsUsed} of ${pool.slotsAvailable} slots used on ${pool.numAgents} agents`,
        ),
      ),
      Tabs({ label: "Parts of the pool", tabs, current: tab }),
      part(pool, tab),
    );
  },
);

/** @param {Pool} pool @param {Tab} tab */
function part(pool, tab) {
  if (tab === "stats") return PoolStatistics({ pool });
  if (tab === "configuration") return PoolConfiguration({ pool });
  if (tab === "bindings") return PoolBindings({ pool });
  return Jobs({ key: tab, pool, isActive: tab === "active" });
}

const Jobs = component(
  /** @param {{ pool: Pool, isActive: boolean }} props */
  ({ pool, isActive }) => {
    const source = useWindows(`queue: ${pool.name} ${isActive}`, async (offset, limit, signal) => {
      /** @type {("STATE_SCHEDULED" | "STATE_SCHEDULED_BACKFILLED" | "STATE_QUEUED")[]} */
      const states = isActive ? ["STATE_SCHEDULED", "STATE_SCHEDULED_BACKFILLED"] : ["STATE_QUEUED"];
      const query = { resourcePool: pool.name, states, offset, limit };
      const found = await ok(api.GET("/api/v1/job-queues-v2", { params: { query }, signal }));
      return {
        rows: found.jobs.map((one, at) => ({
          position: offset + at + 1,
          job: "full" in one ? one.full : one.limited,
        })),
        total: found.pagination.total,
      };
    });
    return group(
      Table({
        label: isActive ? "Jobs with slots" : "Jobs that wait",
        columns: COLUMNS,
        source,
        rowKey: ({ job }) => job.jobId,
        link: ({ job }) => href(`jobs/${encodeURIComponent(job.jobId)}`),
        empty: isActive ? "No job holds slots in this pool." : "No job waits in this pool.",
      }),
      h(
        "p",
        { class: "note" },
        "Who is before whom, and what moves a job: ",
        h("a", { href: href(`queue/${encodeURIComponent(pool.name)}`) }, "the queue"),
        ".",
      ),
      Command({ text: shell`det job list --resource-pool ${pool.name}` }),
    );
  },
);
