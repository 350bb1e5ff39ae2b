// What can be done to experiments: pause, resume, end, archive and back.

import { api, ok } from "../api.js";
import { component, group } from "../html.js";
import { BulkActions } from "../widgets/bulk.js";
import { TensorBoardButton } from "./tensorboard.js";

/** @typedef {import("../widgets/bulk.js").BulkAction & { of: string }} Action `of`: experiments in these phases */

/** Of any project. @param {number[]} experimentIds */
const these = (experimentIds) => ({ params: { path: { project_id: -1 } }, body: { experimentIds } });

/** @type {Action[]} */
const ACTIONS = [
  {
    verb: "Pause",
    of: "ACTIVE",
    act: (ids) => ok(api.POST("/api/v1/projects/{project_id}/experiments/pause", these(ids))),
  },
  {
    verb: "Resume",
    of: "PAUSED",
    act: (ids) => ok(api.POST("/api/v1/projects/{project_id}/experiments/activate", these(ids))),
  },
  {
    verb: "Cancel",
    of: "ACTIVE PAUSED",
    asks: "It ends after its trials have saved a checkpoint, and does not go on; checkpoints and metrics stay.",
    act: (ids) => ok(api.POST("/api/v1/projects/{project_id}/experiments/cancel", these(ids))),
  },
  {
    verb: "Kill",
    of: "ACTIVE PAUSED",
    asks: "What it has computed since its last checkpoint is lost; checkpoints and metrics stay.",
    act: (ids) => ok(api.POST("/api/v1/projects/{project_id}/experiments/kill", these(ids))),
  },
  {
    verb: "Archive",
    of: "OVER",
    act: (ids) => ok(api.POST("/api/v1/projects/{project_id}/experiments/archive", these(ids))),
  },
  {
    verb: "Unarchive",
    of: "ARCHIVED",
    act: (ids) => ok(api.POST("/api/v1/projects/{project_id}/experiments/unarchive", these(ids))),
  },
];

export const Actions = component(
  /**
   * @param {object} props
   * @param {ReadonlySet<string | number>} props.selected
   * @param {() => void} props.done
   * @param {number} [props.workspace] known of one
   * @param {"ACTIVE" | "PAUSED" | "OVER" | "ARCHIVED"} [props.phase] known of one
   * @param {number} [props.total] that the list finds
   * @param {() => Promise<unknown>} [props.selectAll] of these
   */
  ({ phase, workspace, ...rest }) =>
    group(
      BulkActions({
        noun: "experiment",
        actions: ACTIONS.filter((action) => !phase || action.of.includes(phase)),
        ...rest,
      }),
      rest.selected.size > 0 && TensorBoardButton({ experiments: [...rest.selected].map(Number), workspace }),
    ),
);
