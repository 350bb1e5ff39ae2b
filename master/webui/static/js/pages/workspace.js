// One workspace: its projects, who works in it, its pools, templates and policies.

import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { go, href } from "../router.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { FormButton } from "../widgets/form.js";
import { Heading, isGone, pending } from "../widgets/page.js";
import { Tabs } from "../widgets/tabs.js";
import { Deletion } from "./deletion.js";
import { Members } from "./members.js";
import { PolicyEditor } from "./policy_editor.js";
import { TemplateTable } from "./template_table.js";
import { Projects } from "./workspace_projects.js";
import { WorkspacePools } from "./workspace_pools.js";

/** @typedef {import("../store.js").Schemas["Workspace"]} Workspace */

const TABS = /** @type {const} */ ([
  ["projects", "Projects"],
  ["members", "Members"],
  ["pools", "Pools"],
  ["templates", "Templates"],
  ["policies", "Policies"],
]);

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const id = Number(params.workspace);
    const tab = params.tab ?? "projects";
    const live = useLive(`workspaces: ${id}`, async (signal) =>
      ok(api.GET("/api/v1/workspaces/{id}", { params: { path: { id } }, signal })),
    );
    const workspace = live.data?.workspace;
    if (!workspace || isGone(live.error)) return pending(live);
    return h(
      "section",
      { class: tab === "projects" ? "full" : "" },
      Heading({ title: workspace.name, children: Actions({ workspace, done: live.refresh }) }),
      Deletion({ of: workspace }),
      Facts({
        facts: [
          ["ID", workspace.id],
          ["Owner", workspace.username],
          ["State", workspace.archived ? "archived" : ""],
          ["Tasks run as", workspace.agentUserGroup?.agentUser ?? ""],
        ],
      }),
      Tabs({
        label: "Parts of the workspace",
        current: tab,
        tabs: TABS.map(([part, title]) => ({ id: part, title, href: href(`workspaces/${id}/${part}`) })),
      }),
      tab === "projects" && Projects({ workspace }),
      tab === "members" && Members({ workspace }),
      tab === "pools" && WorkspacePools({ workspace, done: live.refresh }),
      tab === "templates" && TemplateTable({ workspace: id }),
      tab === "policies" && PolicyEditor({ workspace: id, owner: workspace.userId }),
      !TABS.some(([part]) => part === tab) && h("p", { class: "empty" }, "There is no such part of a workspace."),
      Command({ text: command(tab, workspace.name) }),
    );
  },
);

/** @param {string} tab @param {string} name */
function command(tab, name) {
  const commands = {
    members: shell`det workspace list-members ${name}`,
    pools: shell`det workspace list-pools ${name}`,
    templates: "det template list",
    policies: shell`det config-policies describe experiment --workspace-name ${name}`,
  };
  return commands[/** @type {keyof typeof commands} */ (tab)] ?? shell`det workspace list-projects ${name}`;
}

const Actions = component(
  /** @param {{ workspace: Workspace, done: () => void }} props */
  ({ workspace, done }) => {
    const may = useRights();
    const { id, name, archived, pinned, immutable } = workspace;
    const target = { workspace: id, owner: workspace.userId };
    const path = { params: { path: { id } } };
    const pin = () =>
      pinned ? ok(api.POST("/api/v1/workspaces/{id}/unpin", path)) : ok(api.POST("/api/v1/workspaces/{id}/pin", path));
    const archive = () =>
      archived
        ? ok(api.POST("/api/v1/workspaces/{id}/unarchive", path))
        : ok(api.POST("/api/v1/workspaces/{id}/archive", path));
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the workspace" },
      Act({ verb: pinned ? "Unpin" : "Pin", act: pin, done }),
      !immutable &&
        may("UPDATE_WORKSPACE", target) && [
          FormButton({
            key: "edit",
            verb: "Edit",
            title: `Edit ${name}`,
            fields: [{ name: "name", label: "Name", value: name, required: true }],
            submit: (values) =>
              ok(api.PATCH("/api/v1/workspaces/{id}", { ...path, body: { name: values.name ?? "" } })),
            done,
          }),
          Act({ key: "archive", verb: archived ? "Unarchive" : "Archive", act: archive, done }),
        ],
      !immutable &&
        may("DELETE_WORKSPACE", target) &&
        Act({
          verb: "Delete",
          act: async () => {
            const { completed } = await ok(api.DELETE("/api/v1/workspaces/{id}", path));
            if (completed) go(href("workspaces"));
          },
          done,
          question: {
            title: `Delete workspace ${name}?`,
            text: [
              `Its ${workspace.numProjects} projects and ${workspace.numExperiments} experiments go with it, `,
              "with their checkpoints and metrics. This cannot be undone.",
            ].join(""),
          },
        }),
    );
  },
);
