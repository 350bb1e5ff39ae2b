// What can be done to experiments: pause, resume, end, archive and back.

import { useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { say } from "../store.js";
import { Confirm } from "../widgets/dialog.js";
import { TensorBoardButton } from "./tensorboard.js";

const ACTIONS = /** @type {const} */ ([
  { verb: "Pause", path: "/api/v1/experiments/{id}/pause", asks: "", of: "ACTIVE" },
  { verb: "Resume", path: "/api/v1/experiments/{id}/activate", asks: "", of: "PAUSED" },
  {
    verb: "Cancel",
    path: "/api/v1/experiments/{id}/cancel",
    asks: "It ends after its trials have saved a checkpoint, and does not go on; checkpoints and metrics stay.",
    of: "ACTIVE PAUSED",
  },
  {
    verb: "Kill",
    path: "/api/v1/experiments/{id}/kill",
    asks: "What it has computed since its last checkpoint is lost; checkpoints and metrics stay.",
    of: "ACTIVE PAUSED",
  },
  { verb: "Archive", path: "/api/v1/experiments/{id}/archive", asks: "", of: "OVER" },
  { verb: "Unarchive", path: "/api/v1/experiments/{id}/unarchive", asks: "", of: "ARCHIVED" },
]);
/** @typedef {typeof ACTIONS[number]} Action */

export const Actions = component(
  /**
   * @param {object} props
   * @param {ReadonlySet<string | number>} props.selected
   * @param {() => void} props.done
   * @param {number} [props.workspace] known of one
   * @param {"ACTIVE" | "PAUSED" | "OVER" | "ARCHIVED"} [props.phase] known of one
   */
  ({ selected, done, phase, workspace }) => {
    const [asked, ask] = useState(/** @type {Action | null} */ (null));
    const [isBusy, setBusy] = useState(false);
    if (!selected.size) return null;
    const them = selected.size === 1 ? `experiment ${[...selected][0]}` : `${selected.size} experiments`;
    const act = async (/** @type {Action} */ action) => {
      ask(null);
      setBusy(true);
      for (const key of selected) {
        try {
          await ok(api.POST(action.path, { params: { path: { id: Number(key) } } }));
        } catch (error) {
          say(`Experiment ${key}: ${error instanceof Error ? error.message : error}`, "problem");
        }
      }
      setBusy(false);
      done();
    };
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the selected experiments" },
      ACTIONS.filter((action) => !phase || action.of.includes(phase)).map((action) =>
        h(
          "button",
          {
            key: action.verb,
            type: "button",
            class: "plain",
            disabled: isBusy,
            onClick: () => (action.asks ? ask(action) : void act(action)),
          },
          action.verb,
        ),
      ),
      TensorBoardButton({ experiments: [...selected].map(Number), workspace }),
      asked &&
        Confirm({
          title: `${asked.verb} ${them}?`,
          text: asked.asks,
          verb: asked.verb,
          onConfirm: () => void act(asked),
          onClose: () => ask(null),
        }),
    );
  },
);
