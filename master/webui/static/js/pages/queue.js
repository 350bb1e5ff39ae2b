// The queue of a pool: `queue/POOL`. Who waits, why, behind whom; and what can be done about it.

import { useEffect, useLayoutEffect } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { count, shell } from "../format.js";
import { component, group, h } from "../html.js";
import { bind } from "../keys.js";
import { useLive } from "../live.js";
import { address, choose, go, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { pending } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";
import { Why } from "./job_why.js";
import { JobActions } from "./queue_actions.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {Schemas["ResourcePool"]} Pool */
/** @typedef {{ position: number, job: Schemas["Job"] | Schemas["LimitedJob"] }} Queued */

/** @type {import("../widgets/table.js").Column<Queued>[]} */
export const COLUMNS = [
  {
    id: "job",
    title: "# · Job",
    width: "minmax(160px, 2fr)",
    hint: "Its place in the queue, which has those that run, too",
    cell: ({ position, job }) => `${position} · ${"name" in job ? job.name : "job of somebody else"}`,
  },
  {
    id: "state",
    title: "State",
    width: "120px",
    hint: "Scheduled: it holds slots",
    cell: ({ job }) => job.summary && State({ state: job.summary.state }),
  },
  {
    id: "why",
    title: "Why it waits",
    width: "minmax(160px, 3fr)",
    cell: ({ job }) => {
      const why = ("waitingReason" in job && job.waitingReason) || "";
      return h("span", { title: why }, why);
    },
  },
  {
    id: "slots",
    title: "Slots",
    width: "90px",
    isNumber: true,
    hint: "Slots that it holds, of those that it asks for",
    cell: ({ job }) => `${job.allocatedSlots ?? 0} / ${job.requestedSlots ?? 0}`,
  },
  {
    id: "priority",
    title: "Priority",
    width: "80px",
    isNumber: true,
    isMinor: true,
    hint: "1 is served first, 99 last",
    cell: ({ job }) => job.priority,
  },
  { id: "user", title: "User", width: "110px", cell: ({ job }) => ("username" in job ? job.username : "") },
  { id: "type", title: "Type", width: "110px", isMinor: true, cell: ({ job }) => typeName(job.type) },
];

/** `TYPE_EXPERIMENT`: experiment. @param {Schemas["JobType"]} type */
export function typeName(type) {
  return type.replace("TYPE_", "").toLowerCase().replaceAll("_", " ");
}

/**
 * Jobs of a pool in their order.
 *
 * @param {string} pool
 * @param {Schemas["JobState"][]} [states] none: any
 */
export function useJobs(pool, states = []) {
  return useWindows(`queue: ${pool} ${states.join()}`, async (offset, limit, signal) => {
    const query = { resourcePool: pool, states, offset, limit };
    const found = await ok(api.GET("/api/v1/job-queues-v2", { params: { query }, signal }));
    return {
      rows: found.jobs.map((one, at) => ({ position: offset + at + 1, job: "full" in one ? one.full : one.limited })),
      total: found.pagination.total,
    };
  });
}

export const SlotsUsed = component(
  /** @param {{ pool: Pool }} props */
  ({ pool }) =>
    h(
      "span",
      { class: "note", title: "Slots of its agents that are connected and enabled, and how many of them are held" },
      `${pool.slotsUsed} of ${pool.slotsAvailable} slots used on ${count(pool.numAgents, "agent")}`,
    ),
);

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const { data, error, refresh } = useLive("cluster: pools", (signal) =>
      ok(api.GET("/api/v1/resource-pools", { signal })),
    );
    useEffect(() => void (document.title = `Queue ${params.pool ?? ""} · Windlass`), [params.pool]);
    if (!data) return pending({ error, refresh });
    const pools = data.resourcePools;
    const name = params.pool ?? (pools.find((one) => one.defaultComputePool) ?? pools[0])?.name;
    const pool = pools.find((one) => one.name === name);
    if (!pool) {
      return h(
        "section",
        null,
        h("h1", null, "Queue"),
        h("p", { class: "empty" }, name ? `There is no pool ${name}.` : "This cluster has no pools yet."),
        h("p", null, h("a", { href: href("clusters") }, "All pools")),
      );
    }
    return Queue({ key: pool.name, pool, pools });
  },
);

const Queue = component(
  /** @param {{ pool: Pool, pools: Pool[] }} props */
  ({ pool, pools }) => {
    const source = useJobs(pool.name);
    const chosen = address.value.query.get("job") ?? "";
    useLayoutEffect(() => bind({ Escape: () => choose({ job: "" }) }), []);
    return h(
      "section",
      { class: "full" },
      h(
        "div",
        { class: "title" },
        h("h1", null, "Queue"),
        h(
          "select",
          {
            "aria-label": "Resource pool",
            value: pool.name,
            onChange: (event) => go(href(`queue/${encodeURIComponent(event.currentTarget.value)}`)),
          },
          pools.map((one) => h("option", { key: one.name, value: one.name }, one.name)),
        ),
        SlotsUsed({ pool }),
      ),
      Table({
        label: `Queue of ${pool.name}`,
        columns: COLUMNS,
        source,
        rowKey: ({ job }) => job.jobId,
        link: ({ job }) => href(`jobs/${encodeURIComponent(job.jobId)}`),
        selected: new Set(chosen ? [chosen] : []),
        onSelect: (keys) => choose({ job: [...keys].filter((key) => key !== chosen).map(String)[0] ?? "" }),
        empty: h(
          "p",
          null,
          "Nothing waits or runs in this pool. Submit something: ",
          h("code", null, "det experiment create config.yaml ."),
        ),
      }),
      chosen &&
        group(
          JobActions({ key: chosen, jobId: chosen, pool, source, done: source.refresh }),
          h(
            "section",
            { class: "drawer", "aria-label": "The selected job", tabIndex: 0 },
            Why({ key: chosen, jobId: chosen }),
          ),
        ),
      !chosen && h("p", { class: "note" }, "Select a job (x) to see what it waits for, and to move it."),
      Command({ text: shell`det job list --resource-pool ${pool.name}` }),
    );
  },
);
