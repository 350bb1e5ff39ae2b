// One agent: what it is, what runs on each of its slots, and whether it gets work: `agents/ID`.

import { useEffect } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { stateName } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { NOT_KNOWN, useRights } from "../rights.js";
import { taskHref } from "../places.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { agentState, slotState } from "../widgets/slot_map.js";
import { State } from "../widgets/state.js";
import { AgentActions } from "./agent_actions.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {import("../widgets/slot_map.js").Summaries} Summaries */

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const id = params.agent ?? "";
    const { data, error, refresh } = useLive(`cluster: agent ${id}`, async (signal) => {
      const [{ agent }, tasks] = await Promise.all([
        ok(api.GET("/api/v1/agents/{agent_id}", { params: { path: { agent_id: id } }, signal })),
        ok(api.GET("/api/v1/tasks", { signal })),
      ]);
      return { agent, summaries: tasks.allocationIdToSummary };
    });
    const rights = useRights();
    const may = rights("UPDATE_AGENTS");
    useEffect(() => void (document.title = `${id} · Windlass`), [id]);
    if (!data) return pending({ error, refresh });
    const { agent, summaries } = data;
    const pool = agent.resourcePools[0] ?? "";
    return h(
      "section",
      null,
      h("p", { class: "above" }, h("a", { href: href("clusters") }, "Cluster")),
      h(
        "div",
        { class: "title" },
        h("h1", null, `Agent ${agent.id}`),
        State({ state: agentState(agent) }),
        may && AgentActions({ agent, done: refresh }),
      ),
      !may &&
        rights !== NOT_KNOWN &&
        h(
          "p",
          { class: "note" },
          "Enabling, disabling and draining need the permission to update agents (update_agents).",
        ),
      agent.notes.map((note) => h("p", { key: note, class: "note" }, note)),
      Facts({
        facts: [
          ["Pool", h("a", { href: href(`queue/${encodeURIComponent(pool)}`) }, pool)],
          ["Labels", agent.labels.join(", ")],
          ["Version", agent.version, "Of Windlass on it"],
          ["Runtime", agent.containerRuntime, "What runs its tasks"],
          ["Isolation", agent.isolation, "What keeps its tasks apart"],
          ["Ends", moment(agent.leavesAt)],
          ["Machine", agent.instanceId],
          ["Addresses", agent.addresses.join(", ")],
          ["Joined", moment(agent.registeredTime)],
        ],
      }),
      h("h2", null, "Slots"),
      Slots({ agent, summaries, may, done: refresh }),
      h("h2", null, "Containers"),
      Containers({ agent, summaries }),
      Command({ text: "det slot list" }),
    );
  },
);

const Slots = component(
  /** @param {{ agent: Schemas["Agent"], summaries: Summaries, may: boolean, done: () => void }} props */
  ({ agent, summaries, may, done }) => {
    const slots = Object.values(agent.slots);
    if (!slots.length) return h("p", { class: "note" }, "It has no slots: it runs only tasks without any.");
    return h(
      "ul",
      { class: "items", "aria-label": "Slots" },
      slots.map((slot) =>
        h(
          "li",
          { key: slot.id },
          h(
            "div",
            { class: "agent-row" },
            h("span", { title: slot.device.uuid || undefined }, `Slot ${slot.id}`),
            h("span", { class: "note" }, slot.device.brand || stateName(slot.device.type.replace("TYPE_", ""))),
            State({ state: slotState(slot, agent) }),
            slot.container && Work({ allocation: slot.container.parent, summaries }),
            may && AgentActions({ agent, slot, done }),
          ),
        ),
      ),
    );
  },
);

const Containers = component(
  /** @param {{ agent: Schemas["Agent"], summaries: Summaries }} props */
  ({ agent, summaries }) => {
    const containers = Object.values(agent.containers);
    if (!containers.length) return h("p", { class: "note" }, "Nothing runs on it.");
    return h(
      "ul",
      { class: "items", "aria-label": "Containers" },
      containers.map((one) =>
        h("li", { key: one.id }, State({ state: one.state }), " ", Work({ allocation: one.parent, summaries })),
      ),
    );
  },
);

const Work = component(
  /** @param {{ allocation: string, summaries: Summaries }} props */
  ({ allocation, summaries }) => {
    const summary = summaries[allocation];
    return summary
      ? h("a", { href: taskHref(summary.taskId) }, summary.name)
      : h("span", { class: "note" }, "work of somebody else");
  },
);
