// Starting a notebook, a shell or a command: where, with how many slots, and what.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { say } from "../store.js";
import { Dialog } from "../widgets/dialog.js";
import { Form } from "../widgets/form.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {import("./task_kinds.js").Kind} Kind */
/** @typedef {Schemas["LaunchTask"]} Asked */
/** @typedef {{ id: string, warnings: string[] }} Launched */

const EVERY_MS = 60_000;

/** @type {Record<string, (body: Asked) => Promise<Launched>>} By the id of the kind. */
const CALLS = {
  notebooks: async (body) => {
    const { notebook, configWarnings } = await ok(api.POST("/api/v1/notebooks", { body }));
    return { id: notebook.id, warnings: configWarnings };
  },
  commands: async (body) => {
    const { command, configWarnings } = await ok(api.POST("/api/v1/commands", { body }));
    return { id: command.id, warnings: configWarnings };
  },
  shells: async (body) => {
    const { shell, configWarnings } = await ok(api.POST("/api/v1/shells", { body }));
    return { id: shell.id, warnings: configWarnings };
  },
};

/** @param {Kind} kind */
export function mayLaunch(kind) {
  return kind.id in CALLS;
}

export const Launch = component(
  /** @param {{ kind: Kind, onClose: () => void, onLaunch: (id: string) => void }} props */
  ({ kind, onClose, onLaunch }) => {
    const { data } = useLive("cluster + workspaces: where tasks run", readPlaces, { everyMs: EVERY_MS });
    const start = CALLS[kind.id];
    if (!start) return null;
    return Dialog({
      title: `Start a ${kind.det}`,
      onClose,
      children: Form({
        verb: "Start",
        fields: [
          ...(kind.id === "commands"
            ? [{ name: "entrypoint", label: "Program", required: true, hint: "Such as python3 check.py" }]
            : []),
          { name: "description", label: "Description" },
          { name: "slots", label: "Slots", kind: "number", min: 0, required: true, value: "1" },
          {
            name: "resource_pool",
            label: "Pool",
            options: [
              { value: "", text: "the default one" },
              ...(data?.pools ?? []).map(({ name }) => ({ value: name, text: name })),
            ],
          },
          {
            name: "workspaceId",
            label: "Workspace",
            required: true,
            options: (data?.workspaces ?? []).map(({ id, name }) => ({ value: String(id), text: name })),
          },
        ],
        note: h(
          "p",
          { class: "note" },
          "Files, templates and all other settings: ",
          h("code", null, `${kind.start} --help`),
        ),
        submit: async ({ entrypoint, description, slots, resource_pool, workspaceId }) => {
          const config = {
            ...(description ? { description } : {}),
            ...(entrypoint ? { entrypoint } : {}),
            resources: { slots: Number(slots), ...(resource_pool ? { resource_pool } : {}) },
          };
          const { id, warnings } = await start({ config, workspaceId: Number(workspaceId) });
          for (const warning of warnings) say(warning);
          onLaunch(id);
        },
      }),
    });
  },
);

/** @param {AbortSignal} signal */
async function readPlaces(signal) {
  const [pools, workspaces] = await Promise.all([
    ok(api.GET("/api/v1/resource-pools", { signal })),
    ok(api.GET("/api/v1/workspaces", { params: { query: { archived: false } }, signal })),
  ]);
  return { pools: pools.resourcePools, workspaces: workspaces.workspaces };
}
