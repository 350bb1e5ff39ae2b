// The jobs that this cluster has at Slurm or PBS, and what the site says of them: `fleet/batch-jobs`.

import { api, ok } from "../api.js";
import { duration } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { moment } from "../widgets/moment.js";
import { Table } from "../widgets/table.js";
import { listed } from "../widgets/windows.js";
import { FleetPage } from "./fleet_tabs.js";

/** @typedef {import("../store.js").Schemas["FleetBatchJob"]} BatchJob */

const SYSTEMS = /** @type {Record<string, string>} */ ({ slurm: "Slurm", pbs: "PBS" });

/** @type {import("../widgets/table.js").Column<BatchJob>[]} */
const COLUMNS = [
  {
    id: "job",
    title: "Job",
    width: "minmax(130px, 1fr)",
    hint: "Its id at the site",
    cell: (one) =>
      h("span", { title: one.name }, `${SYSTEMS[one.system] ?? one.system} ${one.jobId || "(not taken yet)"}`),
  },
  {
    id: "state",
    title: "State",
    width: "150px",
    hint: "And in the site's own word",
    cell: (one) => (one.siteState ? `${one.stage} (${one.siteState})` : one.stage),
  },
  {
    id: "reason",
    title: "Why it waits",
    width: "minmax(160px, 3fr)",
    cell: (one) => h("span", { title: one.reason }, one.reason),
  },
  {
    id: "work",
    title: "Work",
    width: "minmax(120px, 2fr)",
    hint: "The run that it was asked for, or those on its nodes",
    cell: Work,
  },
  {
    id: "nodes",
    title: "Nodes",
    width: "70px",
    isNumber: true,
    cell: (one) => h("span", { title: one.nodeNames.join(", ") || "It has none yet" }, one.nodes),
  },
  {
    id: "slots",
    title: "Slots",
    width: "60px",
    isNumber: true,
    isMinor: true,
    hint: "Of all its nodes",
    cell: (one) => one.slots,
  },
  {
    id: "walltime",
    title: "Walltime",
    width: "100px",
    isNumber: true,
    isMinor: true,
    hint: "For which it was asked for",
    cell: (one) => (one.walltimeS === null ? "the site's" : duration(one.walltimeS)),
  },
  {
    id: "starts",
    title: "Starts",
    width: "150px",
    isMinor: true,
    hint: "When it started, or as the site expects",
    cell: (one) => moment(one.startsAt),
  },
  {
    id: "ends",
    title: "Ends",
    width: "150px",
    hint: "When its time limit ends it",
    cell: (one) => moment(one.endsAt),
  },
  { id: "queue", title: "Queue", width: "100px", isMinor: true, cell: (one) => one.queue || "the site's" },
  { id: "pool", title: "Pool", width: "100px", isMinor: true, cell: (one) => one.pool },
];

/** @param {BatchJob} one */
function Work(one) {
  const hidden = one.runs - one.work.length;
  return group(
    one.work.map(({ jobId, allocationId, name }, at) =>
      group(at > 0 && ", ", h("a", { key: allocationId, href: href(`jobs/${encodeURIComponent(jobId)}`) }, name)),
    ),
    hidden > 0 && `${one.work.length ? ", " : ""}${hidden} of others`,
  );
}

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const { data, error, refresh } = useLive("fleet: batch jobs", (signal) =>
      ok(api.GET("/api/v1/windlass/fleet/batch-jobs", { signal })),
    );
    return FleetPage({
      current: "fleet/batch-jobs",
      title: "Batch jobs",
      children: group(
        Table({
          label: "Batch jobs",
          columns: COLUMNS,
          source: { ...listed(data?.jobs ?? null, error), refresh },
          rowKey: (one) => one.name,
          empty:
            "This cluster has no jobs at Slurm or PBS now. A pool with type slurm or pbs submits some when work waits.",
        }),
        Command({ text: "det fleet batch-jobs" }),
      ),
    });
  },
);
