// The kinds of tasks that users start, one list for each: how the master and `det` call them, and what a row shows.

import { api, ok } from "../api.js";
import { shell } from "../format.js";

/** @typedef {import("../store.js").Schemas} Schemas */

/**
 * @typedef {object} Task One row, of whichever kind.
 * @property {string} id
 * @property {string} name
 * @property {string} state
 * @property {string | null} why it waits, or how it ended
 * @property {string | null} start
 * @property {string | null} end
 * @property {string | null} lastActivity
 * @property {string | null} idleEndsAt
 * @property {string} pool
 * @property {string} user
 * @property {string | null} jobId
 */

/**
 * @typedef {object} Kind
 * @property {string} id of the address
 * @property {string} title
 * @property {string} det the group of `det`
 * @property {string | null} page the word of its page's address, if it has a page
 * @property {string} start the command that starts one
 * @property {(id: string) => string | null} connect the command that opens one
 * @property {(offset: number, limit: number, signal: AbortSignal) => Promise<{ rows: Task[], total: number }>} load
 * @property {(id: string) => Promise<unknown>} kill
 */

const NEWEST = /** @type {const} */ ({ sortBy: "SORT_BY_START_TIME", orderBy: "ORDER_BY_DESC" });

/** @param {Schemas["Command"]} one @returns {Task} */
function row(one) {
  return {
    id: one.id,
    name: one.description,
    state: one.state,
    why: one.waitingReason ?? (one.exitStatus || null),
    start: one.startTime,
    end: one.endTime,
    lastActivity: one.lastActivity,
    idleEndsAt: one.idleEndsAt,
    pool: one.resourcePool,
    user: one.displayName || one.username,
    jobId: one.jobId,
  };
}

/** @param {Schemas["ListedGenericTask"]} one @returns {Task} */
function genericRow(one) {
  return {
    id: one.taskId,
    name: one.name,
    state: one.taskState.replace("GENERIC_TASK_", ""),
    why: one.waitingReason ?? (one.exitStatus || null),
    start: one.registeredTime,
    end: one.endTime,
    lastActivity: null,
    idleEndsAt: null,
    pool: one.resourcePool,
    user: one.username,
    jobId: null,
  };
}

/** @type {Kind[]} */
export const KINDS = [
  {
    id: "notebooks",
    title: "Notebooks",
    det: "notebook",
    page: "jupyter-lab",
    start: "det notebook start",
    connect: (id) => shell`det notebook open ${id}`,
    load: async (offset, limit, signal) => {
      const query = { ...NEWEST, offset, limit };
      const found = await ok(api.GET("/api/v1/notebooks", { params: { query }, signal }));
      return { rows: found.notebooks.map(row), total: found.pagination.total };
    },
    kill: (id) => ok(api.POST("/api/v1/notebooks/{task_id}/kill", { params: { path: { task_id: id } } })),
  },
  {
    id: "commands",
    title: "Commands",
    det: "command",
    page: null,
    start: "det command run",
    connect: () => null,
    load: async (offset, limit, signal) => {
      const query = { ...NEWEST, offset, limit };
      const found = await ok(api.GET("/api/v1/commands", { params: { query }, signal }));
      return { rows: found.commands.map(row), total: found.pagination.total };
    },
    kill: (id) => ok(api.POST("/api/v1/commands/{task_id}/kill", { params: { path: { task_id: id } } })),
  },
  {
    id: "shells",
    title: "Shells",
    det: "shell",
    page: null,
    start: "det shell start",
    connect: (id) => shell`det shell open ${id}`,
    load: async (offset, limit, signal) => {
      const query = { ...NEWEST, offset, limit };
      const found = await ok(api.GET("/api/v1/shells", { params: { query }, signal }));
      return { rows: found.shells.map(row), total: found.pagination.total };
    },
    kill: (id) => ok(api.POST("/api/v1/shells/{task_id}/kill", { params: { path: { task_id: id } } })),
  },
  {
    id: "tensorboards",
    title: "TensorBoards",
    det: "tensorboard",
    page: "tensorboard",
    start: "det tensorboard start EXPERIMENT_ID",
    connect: (id) => shell`det tensorboard open ${id}`,
    load: async (offset, limit, signal) => {
      const query = { ...NEWEST, offset, limit };
      const found = await ok(api.GET("/api/v1/tensorboards", { params: { query }, signal }));
      return { rows: found.tensorboards.map(row), total: found.pagination.total };
    },
    kill: (id) => ok(api.POST("/api/v1/tensorboards/{task_id}/kill", { params: { path: { task_id: id } } })),
  },
  {
    id: "generic",
    title: "Generic",
    det: "task",
    page: null,
    start: "det task create task.yaml",
    connect: () => null,
    load: async (offset, limit, signal) => {
      const query = { ended: true, orderBy: NEWEST.orderBy, offset, limit };
      const found = await ok(api.GET("/api/v1/windlass/generic-tasks", { params: { query }, signal }));
      return { rows: found.tasks.map(genericRow), total: found.pagination.total };
    },
    kill: (id) => ok(api.POST("/api/v1/tasks/{task_id}/kill", { params: { path: { task_id: id } }, body: {} })),
  },
];
