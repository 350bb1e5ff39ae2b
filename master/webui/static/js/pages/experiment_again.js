// From an experiment or a trial to the page of a new one: fork, continue, begin at its checkpoint, search around it.

import { component, h } from "../html.js";
import { href } from "../router.js";
import { TensorBoardButton } from "./tensorboard.js";

/** @typedef {import("../store.js").Schemas} Schemas */

/** Those whose trials do not depend on each other. */
const CONTINUED = new Set(["single", "random", "grid"]);

export const Again = component(
  /** @param {{ experiment: Schemas["Experiment"], isOver: boolean }} props */
  ({ experiment: { id, unmanaged, archived, searcherType }, isOver }) =>
    !unmanaged &&
    h(
      "nav",
      { class: "bar", "aria-label": "Go on with this experiment" },
      h("a", { href: href("new", { fork: id }) }, "Fork"),
      isOver && !archived && CONTINUED.has(searcherType) && h("a", { href: href("new", { continue: id }) }, "Continue"),
    ),
);

export const FromTrial = component(
  /** @param {{ trial: Schemas["Trial"] }} props */
  ({ trial: { id, checkpointCount } }) =>
    h(
      "nav",
      { class: "bar", "aria-label": "Go on with this trial" },
      checkpointCount > 0 && h("a", { href: href("new", { trial: id }) }, "Begin at its checkpoint"),
      h("a", { href: href("new", { search: id }) }, "Search around it"),
      TensorBoardButton({ trials: [id] }),
    ),
);
