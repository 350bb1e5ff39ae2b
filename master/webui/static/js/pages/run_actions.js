// What can be done to runs: pause, resume, end, archive, delete.

import { api, ok } from "../api.js";

/** @type {import("../widgets/bulk.js").BulkAction[]} */
export const RUN_ACTIONS = [
  { verb: "Pause", act: (runIds) => ok(api.POST("/api/v1/runs/pause", { body: { runIds } })) },
  { verb: "Resume", act: (runIds) => ok(api.POST("/api/v1/runs/resume", { body: { runIds } })) },
  {
    verb: "Kill",
    asks: "What it has computed since its last checkpoint is lost; checkpoints and metrics stay.",
    act: (runIds) => ok(api.POST("/api/v1/runs/kill", { body: { runIds } })),
  },
  { verb: "Archive", act: (runIds) => ok(api.POST("/api/v1/runs/archive", { body: { runIds } })) },
  {
    verb: "Delete",
    asks: "Its checkpoints, metrics, logs and TensorBoard files are deleted with it, for ever.",
    act: (runIds) => ok(api.POST("/api/v1/runs/delete", { body: { runIds } })),
  },
];
