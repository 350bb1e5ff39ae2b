// The projects of a workspace.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useRights } from "../rights.js";
import { address, choose, go, href } from "../router.js";
import { FormButton } from "../widgets/form.js";
import { moment } from "../widgets/moment.js";
import { Search } from "../widgets/page.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";
import { progressOf } from "./deletion.js";

/** @typedef {import("../store.js").Schemas} Schemas */

/** @type {import("../widgets/table.js").Column<Schemas["Project"]>[]} */
const COLUMNS = [
  { id: "name", title: "Name", width: "minmax(160px, 2fr)", cell: (one) => one.name },
  { id: "key", title: "Key", hint: "Begins the local IDs of its runs", cell: (one) => one.key },
  {
    id: "experiments",
    title: "Experiments",
    isNumber: true,
    hint: "Archived ones too",
    cell: (one) => one.numExperiments,
  },
  {
    id: "active",
    title: "Active",
    isNumber: true,
    hint: "Experiments that wait or run",
    cell: (one) => one.numActiveExperiments,
  },
  {
    id: "last",
    title: "Last started",
    width: "160px",
    isMinor: true,
    cell: (one) => moment(one.lastExperimentStartedAt),
  },
  { id: "owner", title: "Owner", isMinor: true, cell: (one) => one.username },
  { id: "state", title: "State", isMinor: true, cell: (one) => progressOf(one) || (one.archived ? "archived" : "") },
];

export const Projects = component(
  /** @param {{ workspace: Schemas["Workspace"] }} props */
  ({ workspace: { id, archived, immutable } }) => {
    const may = useRights();
    const name = address.value.query.get("name") ?? "";
    const source = useWindows(`workspaces: projects of ${id} ${name}`, async (offset, limit, signal) => {
      const query = { offset, limit, sortBy: /** @type {const} */ ("SORT_BY_NAME"), ...(name ? { name } : {}) };
      const params = { path: { id }, query };
      const found = await ok(api.GET("/api/v1/workspaces/{id}/projects", { params, signal }));
      return { rows: found.projects, total: found.pagination.total };
    });
    return h(
      "div",
      { class: "fills" },
      h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        Search({ label: "Name is", value: name, onChange: (value) => choose({ name: value }) }),
        !archived &&
          !immutable &&
          may("CREATE_PROJECT", { workspace: id, anybody: true }) &&
          FormButton({
            verb: "New project",
            title: "New project",
            isMain: true,
            fields: [
              { name: "name", label: "Name", required: true },
              { name: "description", label: "Description", kind: "area" },
              { name: "key", label: "Key", hint: "Up to five letters and digits; empty: made of the name" },
            ],
            submit: async ({ name = "", description = "", key }) => {
              const { project } = await ok(
                api.POST("/api/v1/workspaces/{workspace_id}/projects", {
                  params: { path: { workspace_id: id } },
                  body: { name, description, ...(key ? { key } : {}) },
                }),
              );
              go(href(`projects/${project.id}/experiments`));
            },
          }),
      ),
      Table({
        label: "Projects",
        columns: COLUMNS,
        source,
        rowKey: (one) => one.id,
        link: (one) => href(`projects/${one.id}/experiments`),
        empty: name
          ? "No project has this name: the whole name is compared."
          : "No projects yet: make one with “New project”.",
      }),
    );
  },
);
