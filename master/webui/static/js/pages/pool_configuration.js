// How a pool is set up: what everybody may know; for who may read it, its section of master.yaml without secrets.

import { api, ok } from "../api.js";
import { duration, stateName } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { text } from "../widgets/json.js";
import { pending } from "../widgets/page.js";

/** @typedef {import("../store.js").Schemas["ResourcePool"]} Pool */

const EVERY_MS = 60_000;

export const PoolConfiguration = component(
  /** @param {{ pool: Pool }} props */
  ({ pool }) => {
    const may = useRights()("VIEW_MASTER_CONFIG");
    const uses = [pool.defaultComputePool && "work with slots", pool.defaultAuxPool && "work without slots"];
    return group(
      pool.description && h("p", null, pool.description),
      Facts({
        facts: [
          ["Scheduler", stateName(pool.schedulerType.replace("SCHEDULER_TYPE_", ""))],
          ["Fitting", stateName(pool.schedulerFittingPolicy.replace("FITTING_POLICY_", ""))],
          ["Slots", stateName(pool.slotType.replace("TYPE_", ""))],
          ["Default of", uses.filter(Boolean).join(", "), "Where no pool is asked for"],
          ["Agents launched", pool.maxAgents ? `${pool.minAgents} to ${pool.maxAgents}` : null],
          ["Instance type", pool.instanceType],
          ["Location", pool.location],
          ["Kept without work for", pool.maxAgents ? duration(pool.maxIdleAgentPeriod) : null],
          ["Tasks without slots", pool.auxContainerCapacityPerAgent, "On one agent"],
          ["Resource manager", pool.resourceManagerName],
        ],
      }),
      may && Section({ name: pool.name }),
      Command({ text: "det master config show" }),
    );
  },
);

const Section = component(
  /** @param {{ name: string }} props */
  ({ name }) => {
    const live = useLive("master: configuration", (signal) => ok(api.GET("/api/v1/master/config", { signal })), {
      everyMs: EVERY_MS,
    });
    if (!live.data) return pending(live);
    const found = sections(live.data.config.resource_pools).find((one) => one.pool_name === name);
    return (
      found &&
      group(
        h("h2", null, "In master.yaml"),
        h("p", { class: "note" }, "As the master runs, with defaults; secrets are masked."),
        h("pre", { tabIndex: 0, "aria-label": `resource_pools: ${name}` }, text(found)),
      )
    );
  },
);

/** @param {unknown} found @returns {{ pool_name?: unknown }[]} */
function sections(found) {
  return Array.isArray(found) ? found : [];
}
