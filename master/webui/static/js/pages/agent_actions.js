// Whether an agent, or one of its slots, gets work: enable, disable, drain.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { Act } from "../widgets/act.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {"Enable" | "Drain" | "Disable"} Verb */

const HELP = {
  Enable: "It gets work again.",
  Drain: "What runs on it may finish; it gets no new work.",
  Disable: "What runs on it is stopped; trials go on elsewhere from their last checkpoints. It gets no new work.",
};

export const AgentActions = component(
  /** @param {{ agent: Schemas["Agent"], slot?: Schemas["Slot"], done: () => void }} props `slot`: only of this one */
  ({ agent, slot, done }) => {
    const what = slot ? `slot ${slot.id} of ${agent.id}` : `agent ${agent.id}`;
    const { enabled, draining } = slot ?? agent;
    /** @type {Verb[]} */
    const verbs = [];
    if (!enabled || draining) verbs.push("Enable");
    if (enabled && !draining) verbs.push("Drain");
    if (enabled || draining) verbs.push("Disable");
    return h(
      "span",
      { class: "bar" },
      verbs.map((verb) =>
        Act({
          key: verb,
          verb,
          of: what,
          hint: HELP[verb],
          act: () => change(agent.id, slot?.id, verb),
          done,
          ...(verb === "Disable" ? { question: { title: `Disable ${what}?`, text: HELP.Disable } } : {}),
        }),
      ),
    );
  },
);

/** @param {string} agent @param {string | undefined} slot @param {Verb} verb */
async function change(agent, slot, verb) {
  const body = { drain: verb === "Drain" };
  if (slot === undefined) {
    const params = { path: { agent_id: agent } };
    if (verb === "Enable") await ok(api.POST("/api/v1/agents/{agent_id}/enable", { params }));
    else await ok(api.POST("/api/v1/agents/{agent_id}/disable", { params, body }));
    return;
  }
  const params = { path: { agent_id: agent, slot_id: slot } };
  if (verb === "Enable") await ok(api.POST("/api/v1/agents/{agent_id}/slots/{slot_id}/enable", { params }));
  else await ok(api.POST("/api/v1/agents/{agent_id}/slots/{slot_id}/disable", { params, body }));
}
