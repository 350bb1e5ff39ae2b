// One resource pool: its jobs, how it was used, how it is set up, whose it is: `resourcepool/NAME`.

import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Heading, pending } from "../widgets/page.js";
import { Table } from "../widgets/table.js";
import { Tabs } from "../widgets/tabs.js";
import { PoolBindings } from "./pool_bindings.js";
import { PoolConfiguration } from "./pool_configuration.js";
import { PoolStatistics } from "./pool_statistics.js";
import { COLUMNS, SlotsUsed, useJobs } from "./queue.js";

/** @typedef {import("../store.js").Schemas["ResourcePool"]} Pool */

const TITLES = /** @type {const} */ ({
  active: "Active",
  queued: "Queued",
  stats: "Statistics",
  configuration: "Configuration",
  bindings: "Bindings",
});
/** @typedef {keyof typeof TITLES} Tab */

/** @type {import("../store.js").Schemas["JobState"][]} */
const ACTIVE = ["STATE_SCHEDULED", "STATE_SCHEDULED_BACKFILLED"];
/** @type {import("../store.js").Schemas["JobState"][]} */
const QUEUED = ["STATE_QUEUED"];

/** @param {string | undefined} word @returns {Tab} */
function tabOf(word) {
  return word !== undefined && Object.hasOwn(TITLES, word) ? /** @type {Tab} */ (word) : "active";
}

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const name = params.pool ?? "";
    const { data, error, refresh } = useLive("cluster: names of pools", (signal) =>
      ok(api.GET("/api/v1/resource-pools", { signal })),
    );
    if (!data) return pending({ error, refresh });
    const pool = data.resourcePools.find((one) => one.name === name);
    if (!pool) {
      return h(
        "section",
        null,
        Heading({ title: `Pool ${name}` }),
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
      Heading({ title: `Pool ${pool.name}`, children: SlotsUsed({ pool }) }),
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
    const source = useJobs(pool.name, isActive ? ACTIVE : QUEUED);
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
