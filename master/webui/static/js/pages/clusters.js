// The cluster: each pool with its agents, and each agent with its slots, by what runs on them. How a machine joins.

import { useEffect, useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { count, fullTime, time } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { pending } from "../widgets/page.js";
import { SlotMap, agentState } from "../widgets/slot_map.js";
import { State } from "../widgets/state.js";
import { Join } from "./join.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {import("../widgets/slot_map.js").Summaries} Summaries */

const EVERY_MS = 5_000;
const MOST_AGENTS = 500;
/** What the master says instead of the id of an agent to who may not know it. */
export const HIDDEN = "********";

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    useEffect(() => void (document.title = "Cluster · Windlass"), []);
    const { data, error, refresh } = useLive("cluster", readCluster, { everyMs: EVERY_MS });
    const may = useRights()("UPDATE_AGENTS");
    const [joins, setJoins] = useState(false);
    if (!data) return pending({ error, refresh });
    const { pools, agents, total, summaries, queues } = data;
    const used = pools.reduce((sum, pool) => sum + pool.slotsUsed, 0);
    const slots = pools.reduce((sum, pool) => sum + pool.slotsAvailable, 0);
    return h(
      "section",
      null,
      h(
        "div",
        { class: "title" },
        h("h1", null, "Cluster"),
        h(
          "span",
          { class: "note" },
          `${count(pools.length, "pool")}, ${count(total, "agent")}, ${used} of ${count(slots, "slot")} used`,
        ),
        h("button", { type: "button", class: "plain", onClick: () => setJoins(true) }, "Add a machine…"),
      ),
      total > agents.length &&
        h("p", { class: "note" }, `The first ${agents.length} of ${count(total, "agent")} are shown.`),
      !pools.length && h("p", { class: "empty" }, "No pools yet: resource_pools of master.yaml names them."),
      pools.map((pool) =>
        Pool({
          key: pool.name,
          pool,
          agents: agents.filter((agent) => agent.resourcePools.includes(pool.name)),
          summaries,
          queue: queues.get(pool.name),
        }),
      ),
      Command({ text: "det slot list" }),
      joins && Join({ pools: pools.map((pool) => pool.name), may, onClose: () => setJoins(false) }),
    );
  },
);

/** @param {AbortSignal} signal */
async function readCluster(signal) {
  const agentsQuery = { limit: MOST_AGENTS, excludeContainers: true };
  const [pools, agents, tasks, stats] = await Promise.all([
    ok(api.GET("/api/v1/resource-pools", { signal })),
    ok(api.GET("/api/v1/agents", { params: { query: agentsQuery }, signal })),
    ok(api.GET("/api/v1/tasks", { signal })),
    ok(api.GET("/api/v1/job-queues/stats", { signal })),
  ]);
  return {
    pools: pools.resourcePools,
    agents: agents.agents,
    total: agents.pagination.total,
    summaries: tasks.allocationIdToSummary,
    queues: new Map(stats.results.map((one) => [one.resourcePool, one.stats])),
  };
}

const Pool = component(
  /**
   * @param {{ pool: Schemas["ResourcePool"], agents: Schemas["Agent"][], summaries: Summaries,
   *   queue: Schemas["QueueCounts"] | undefined }} props
   */
  ({ pool, agents, summaries, queue }) =>
    h(
      "section",
      { class: "pool", "aria-label": `Pool ${pool.name}` },
      h("h2", null, h("a", { href: href(`resourcepool/${encodeURIComponent(pool.name)}`) }, pool.name)),
      pool.description && h("p", { class: "note" }, pool.description),
      h(
        "p",
        null,
        h(
          "span",
          { title: "Slots of agents that are connected and enabled" },
          `${pool.slotsUsed} of ${count(pool.slotsAvailable, "slot")} used`,
        ),
        ` · ${count(pool.numAgents, "agent")}`,
        pool.maxAgents > 0 && ` (launches ${pool.minAgents} to ${pool.maxAgents})`,
        h(
          "span",
          { title: "Containers without slots, such as TensorBoards" },
          ` · ${pool.auxContainersRunning} of ${pool.auxContainerCapacity} without slots`,
        ),
        " · ",
        h(
          "a",
          { href: href(`queue/${encodeURIComponent(pool.name)}`) },
          queue ? `${count(queue.queuedCount, "job")} waiting, ${queue.scheduledCount} with slots` : "queue",
        ),
      ),
      agents.map((agent, at) => AgentRow({ key: agent.id === HIDDEN ? at : agent.id, agent, summaries })),
      !agents.length &&
        h(
          "p",
          { class: "note" },
          pool.maxAgents > 0 ? "No machines now: the pool launches them when work waits." : "No agents have joined it.",
        ),
    ),
);

const AgentRow = component(
  /** @param {{ agent: Schemas["Agent"], summaries: Summaries }} props */
  ({ agent, summaries }) =>
    h(
      "div",
      { class: "agent-row" },
      agent.id === HIDDEN
        ? h("span", { title: "Its name is for who may see sensitive agent information" }, "an agent")
        : h("a", { href: href(`agents/${encodeURIComponent(agent.id)}`) }, agent.id),
      State({ state: agentState(agent), reason: agent.notes.join(" ") || null }),
      SlotMap({ agent, summaries }),
      agent.labels.length > 0 && h("span", { class: "note", title: "Its labels" }, agent.labels.join(", ")),
      agent.leavesAt && h("span", { class: "note", title: fullTime(agent.leavesAt) }, `ends ${time(agent.leavesAt)}`),
    ),
);
