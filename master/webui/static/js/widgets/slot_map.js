// The slots of an agent as squares by the state of what runs on them, with symbol, word and tool tip.

import { classes, component, h } from "../html.js";
import { taskHref } from "../places.js";
import { STATES } from "../states.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {Record<string, Schemas["AllocationSummary"]>} Summaries By allocation. */

/**
 * One word, of the table of states.
 *
 * @param {Schemas["Slot"]} slot
 * @param {Schemas["Agent"]} agent
 */
export function slotState(slot, agent) {
  if (slot.container) return slot.container.state.replace("STATE_", "");
  if (!agent.connected) return "AWAY";
  if (slot.draining || agent.draining) return "DRAINING";
  return slot.enabled && agent.enabled ? "IDLE" : "DISABLED";
}

/** @param {Schemas["Agent"]} agent */
export function agentState(agent) {
  if (!agent.connected) return "AWAY";
  if (agent.draining) return "DRAINING";
  return agent.enabled ? "ENABLED" : "DISABLED";
}

export const SlotMap = component(
  /** @param {{ agent: Schemas["Agent"], summaries: Summaries }} props */
  ({ agent, summaries }) => {
    const slots = Object.values(agent.slots);
    if (!slots.length) return h("span", { class: "note" }, "no slots");
    return h(
      "span",
      { class: "slots", role: "group", "aria-label": `Slots of ${agent.id}` },
      slots.map((slot) => Square({ key: slot.id, slot, agent, summaries })),
    );
  },
);

const Square = component(
  /** @param {{ slot: Schemas["Slot"], agent: Schemas["Agent"], summaries: Summaries }} props */
  ({ slot, agent, summaries }) => {
    const state = slotState(slot, agent);
    const summary = slot.container ? summaries[slot.container.parent] : undefined;
    const word = state.toLowerCase();
    const who = summary ? `: ${summary.name}` : slot.container ? ": work of somebody else" : "";
    const title = `slot ${slot.id}, ${slot.device.brand || "no brand"}, ${word}${who}`;
    const look = {
      class: classes("slot", "state", word, slot.container !== null && "held"),
      title,
      "aria-label": title,
    };
    const symbol = STATES[state]?.symbol ?? "·";
    return summary
      ? h("a", { ...look, href: taskHref(summary.taskId), tabIndex: -1 }, symbol)
      : h("span", { ...look, role: "img" }, symbol);
  },
);
