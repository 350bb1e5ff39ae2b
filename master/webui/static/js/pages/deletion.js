// How far the deletion of a workspace or a project is, and why it failed.

import { component, h } from "../html.js";

/** @typedef {{ state: import("../store.js").Schemas["WorkspaceState"], errorMessage: string }} Deletable */

/** @param {Deletable} one */
export function progressOf({ state }) {
  return { DELETING: "deleting", DELETE_FAILED: "deletion failed", DELETED: "deleted" }[state.slice(16)] ?? "";
}

export const Deletion = component(
  /** @param {{ of: Deletable & { numExperiments: number } }} props */
  ({ of }) => {
    const progress = progressOf(of);
    if (progress === "deleting")
      return h(
        "p",
        { class: "note", role: "status" },
        `It is being deleted, with its experiments and their checkpoints: ${of.numExperiments} experiments are left.`,
      );
    if (progress === "deletion failed")
      return h(
        "p",
        { class: "problem", role: "alert" },
        `Its deletion failed: ${of.errorMessage} Delete it again to go on.`,
      );
    return null;
  },
);
