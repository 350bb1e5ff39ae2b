// Workspaces: those that one may see, the pinned ones marked.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useRights } from "../rights.js";
import { address, choose, go, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { FormButton } from "../widgets/form.js";
import { Heading, Search } from "../widgets/page.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";
import { progressOf } from "./deletion.js";

/** @typedef {import("../store.js").Schemas["Workspace"]} Workspace */
/** @typedef {import("../openapi.js").operations["workspaces_list_workspaces"]} List */
/** @typedef {NonNullable<List["parameters"]["query"]>} Query */

/** @type {import("../widgets/table.js").Column<Workspace>[]} */
const COLUMNS = [
  {
    id: "name",
    title: "Name",
    width: "minmax(160px, 2fr)",
    sort: "SORT_BY_NAME",
    cell: (one) => `${one.pinned ? "★ " : ""}${one.name}`,
  },
  { id: "projects", title: "Projects", isNumber: true, cell: (one) => one.numProjects },
  {
    id: "experiments",
    title: "Experiments",
    isNumber: true,
    hint: "Of all its projects, archived ones too",
    cell: (one) => one.numExperiments,
  },
  { id: "owner", title: "Owner", cell: (one) => one.username },
  { id: "id", title: "ID", sort: "SORT_BY_ID", isNumber: true, isMinor: true, cell: (one) => one.id },
  {
    id: "state",
    title: "State",
    isMinor: true,
    cell: (one) => progressOf(one) || (one.archived ? "archived" : ""),
  },
];

export default component(() => {
  const { query } = address.value;
  const may = useRights();
  const [name, archived, by] = [query.get("name") ?? "", query.get("archived") === "1", query.get("sort") ?? ""];
  const descending = query.get("order") === "down";
  /** @type {Query} */
  const asked = {
    sortBy: /** @type {NonNullable<Query["sortBy"]>} */ (by || "SORT_BY_NAME"),
    orderBy: descending ? "ORDER_BY_DESC" : "ORDER_BY_ASC",
    ...(name ? { name } : {}),
    ...(archived ? {} : { archived: false }),
  };
  const source = useWindows(`workspaces: ${JSON.stringify(asked)}`, async (offset, limit, signal) => {
    const found = await ok(api.GET("/api/v1/workspaces", { params: { query: { ...asked, offset, limit } }, signal }));
    return { rows: found.workspaces, total: found.pagination.total };
  });
  return h(
    "section",
    { class: "full" },
    Heading({
      title: "Workspaces",
      children: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        Search({ label: "Name is", value: name, onChange: (value) => choose({ name: value }) }),
        h(
          "label",
          null,
          h("input", {
            type: "checkbox",
            checked: archived,
            onChange: (event) => choose({ archived: event.currentTarget.checked ? "1" : "" }),
          }),
          " archived too",
        ),
        may("CREATE_WORKSPACE", { anybody: true }) &&
          FormButton({
            verb: "New workspace",
            title: "New workspace",
            isMain: true,
            fields: [{ name: "name", label: "Name", required: true }],
            submit: async (values) => {
              const { workspace } = await ok(api.POST("/api/v1/workspaces", { body: { name: values.name ?? "" } }));
              go(href(`workspaces/${workspace.id}`));
            },
          }),
      ),
    }),
    Table({
      label: "Workspaces",
      columns: COLUMNS,
      source,
      rowKey: (one) => one.id,
      link: (one) => href(`workspaces/${one.id}`),
      sort: { by: asked.sortBy ?? "", descending },
      onSort: (sort) => choose({ sort: sort.by, order: sort.descending ? "down" : "" }),
      empty: name
        ? "No workspace has this name: the whole name is compared."
        : "You may see no workspace: ask an administrator.",
    }),
    Command({ text: "det workspace list" }),
  );
});
