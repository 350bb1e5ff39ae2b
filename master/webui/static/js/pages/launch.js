// Starting a notebook, a shell or a command: where, with how many slots, and what.

import { useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { say } from "../store.js";
import { Dialog } from "../widgets/dialog.js";

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
    const [asked, setAsked] = useState({ description: "", program: "", pool: "", slots: "1", workspace: "1" });
    const [problem, setProblem] = useState("");
    const { data } = useLive("where tasks run", readPlaces, { everyMs: EVERY_MS });
    const change = (/** @type {Partial<typeof asked>} */ part) => setAsked((old) => ({ ...old, ...part }));
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      const config = {
        ...(asked.description ? { description: asked.description } : {}),
        ...(kind.id === "commands" ? { entrypoint: asked.program } : {}),
        resources: { slots: Number(asked.slots), ...(asked.pool ? { resource_pool: asked.pool } : {}) },
      };
      try {
        const { id, warnings } = await /** @type {(body: Asked) => Promise<Launched>} */ (CALLS[kind.id])({
          config,
          workspaceId: Number(asked.workspace),
        });
        for (const warning of warnings) say(warning);
        onLaunch(id);
      } catch (error) {
        setProblem(error instanceof Error ? error.message : String(error));
      }
    };
    return Dialog({
      title: `Start a ${kind.det}`,
      onClose,
      children: h(
        "form",
        { onSubmit: submit },
        kind.id === "commands" &&
          h(
            "label",
            null,
            "Program",
            h("input", {
              required: true,
              placeholder: "python3 check.py",
              value: asked.program,
              onInput: (event) => change({ program: event.currentTarget.value }),
            }),
          ),
        h(
          "label",
          null,
          "Description",
          h("input", {
            value: asked.description,
            onInput: (event) => change({ description: event.currentTarget.value }),
          }),
        ),
        h(
          "label",
          null,
          "Slots",
          h("input", {
            type: "number",
            min: 0,
            step: 1,
            required: true,
            value: asked.slots,
            onInput: (event) => change({ slots: event.currentTarget.value }),
          }),
        ),
        h(
          "label",
          null,
          "Pool ",
          h(
            "select",
            { value: asked.pool, onChange: (event) => change({ pool: event.currentTarget.value }) },
            h("option", { value: "" }, "the default one"),
            data?.pools.map((one) => h("option", { key: one.name, value: one.name }, one.name)),
          ),
        ),
        h(
          "label",
          null,
          "Workspace ",
          h(
            "select",
            { value: asked.workspace, onChange: (event) => change({ workspace: event.currentTarget.value }) },
            data?.workspaces.map((one) => h("option", { key: one.id, value: String(one.id) }, one.name)),
          ),
        ),
        problem && h("p", { class: "problem", role: "alert" }, problem),
        h("p", { class: "note" }, "Files, templates and all other settings: ", h("code", null, `${kind.start} --help`)),
        h(
          "p",
          { class: "buttons" },
          h("button", { type: "button", class: "plain", onClick: onClose }, "Close"),
          h("button", { type: "submit" }, "Start"),
        ),
      ),
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
