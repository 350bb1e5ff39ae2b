// The state of anything: its symbol, its word and its colour, from the one table.

import { stateName } from "../format.js";
import { component, h } from "../html.js";
import { STATES } from "../states.js";

export const State = component(
  /** @param {{ state: string, reason?: string | null }} props `reason`: why, in a tool tip */
  ({ state, reason }) => {
    const name = stateName(state);
    const first = name.split(" ")[0] ?? "";
    return h(
      "span",
      { class: `state ${first}`, title: reason ?? undefined },
      h("span", { "aria-hidden": true }, `${STATES[first.toUpperCase()]?.symbol ?? "·"} `),
      name,
    );
  },
);
