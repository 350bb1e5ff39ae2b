// What is done to a project: edited, archived, moved, deleted; and its parts.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { go, href } from "../router.js";
import { Act } from "../widgets/act.js";
import { FormButton } from "../widgets/form.js";
import { Tabs } from "../widgets/tabs.js";
import { Deletion } from "./deletion.js";

/** @typedef {import("../store.js").Schemas["Project"]} Project */

const TABS = /** @type {const} */ ([
  ["experiments", "Experiments"],
  ["runs", "Runs"],
  ["notes", "Notes"],
]);

/** @param {number} id 0: of none */
export function useProject(id) {
  return useLive(`workspaces: project ${id}`, async (signal) =>
    id ? (await ok(api.GET("/api/v1/projects/{id}", { params: { path: { id } }, signal }))).project : null,
  );
}

export const ProjectHead = component(
  /** @param {{ project: Project, current: string, done: () => void }} props */
  ({ project, current, done }) =>
    h(
      "div",
      null,
      h(
        "div",
        { class: "title" },
        h("a", { href: href(`workspaces/${project.workspaceId}`) }, `Workspace ${project.workspaceName}`),
        project.archived && h("span", { class: "note" }, "archived"),
        !project.immutable && Actions({ project, done }),
      ),
      Deletion({ of: project }),
      project.description && h("p", null, project.description),
      Tabs({
        label: "Parts of the project",
        current,
        tabs: TABS.map(([part, title]) => ({ id: part, title, href: href(`projects/${project.id}/${part}`) })),
      }),
    ),
);

const Actions = component(
  /** @param {{ project: Project, done: () => void }} props */
  ({ project, done }) => {
    const { id, name, description, key, archived, workspaceId, userId } = project;
    const may = useRights();
    const target = { workspace: workspaceId, owner: userId };
    const isMine = may("UPDATE_PROJECT", target);
    const workspaces = useLive(
      "workspaces: their names",
      async (signal) => (await ok(api.GET("/api/v1/workspaces", { signal }))).workspaces,
      { everyMs: 60_000 },
    ).data;
    const path = { params: { path: { id } } };
    const others = (workspaces ?? []).filter((one) => one.id !== workspaceId && !one.archived && !one.immutable);
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the project" },
      isMine && [
        FormButton({
          key: "edit",
          verb: "Edit",
          title: `Edit ${name}`,
          fields: [
            { name: "name", label: "Name", value: name, required: true },
            { name: "description", label: "Description", value: description, kind: "area" },
            { name: "key", label: "Key", value: key, hint: "Begins the local IDs of its runs" },
          ],
          submit: (values) => ok(api.PATCH("/api/v1/projects/{id}", { ...path, body: values })),
          done,
        }),
        Act({
          key: "archive",
          verb: archived ? "Unarchive" : "Archive",
          act: () =>
            archived
              ? ok(api.POST("/api/v1/projects/{id}/unarchive", path))
              : ok(api.POST("/api/v1/projects/{id}/archive", path)),
          done,
        }),
        others.length > 0 &&
          FormButton({
            key: "move",
            verb: "Move",
            title: `Move ${name}`,
            fields: [
              {
                name: "destinationWorkspaceId",
                label: "To workspace",
                options: others.map((one) => ({ value: String(one.id), text: one.name })),
              },
            ],
            submit: ({ destinationWorkspaceId }) =>
              ok(
                api.POST("/api/v1/projects/{project_id}/move", {
                  params: { path: { project_id: id } },
                  body: { destinationWorkspaceId: Number(destinationWorkspaceId) },
                }),
              ),
            done,
          }),
      ],
      may("DELETE_PROJECT", target) &&
        Act({
          verb: "Delete",
          act: async () => {
            const { completed } = await ok(api.DELETE("/api/v1/projects/{id}", path));
            if (completed) go(href(`workspaces/${workspaceId}`));
          },
          done,
          question: {
            title: `Delete project ${name}?`,
            text: `Its ${project.numExperiments} experiments go with it, and their checkpoints and metrics, for ever.`,
          },
        }),
    );
  },
);
