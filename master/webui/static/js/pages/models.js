// The model registry: models that one may see.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { address, choose, go, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { FormButton, words } from "../widgets/form.js";
import { moment } from "../widgets/moment.js";
import { Heading, Search } from "../widgets/page.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";

/** @typedef {import("../store.js").Schemas["Model"]} Model */
/** @typedef {NonNullable<import("../openapi.js").operations["models_list_models"]["parameters"]["query"]>} Query */

/** @type {import("../widgets/table.js").Column<Model>[]} */
const COLUMNS = [
  { id: "name", title: "Name", width: "minmax(160px, 2fr)", sort: "SORT_BY_NAME", cell: (one) => one.name },
  {
    id: "versions",
    title: "Versions",
    width: "90px",
    sort: "SORT_BY_NUM_VERSIONS",
    isNumber: true,
    cell: (one) => one.numVersions,
  },
  { id: "labels", title: "Labels", cell: (one) => one.labels.join(", ") },
  { id: "owner", title: "Owner", width: "110px", cell: (one) => one.username },
  {
    id: "changed",
    title: "Changed",
    width: "160px",
    sort: "SORT_BY_LAST_UPDATED_TIME",
    isMinor: true,
    cell: (one) => moment(one.lastUpdatedTime),
  },
  {
    id: "description",
    title: "Description",
    width: "minmax(120px, 2fr)",
    sort: "SORT_BY_DESCRIPTION",
    isMinor: true,
    cell: (one) => one.description,
  },
  { id: "state", title: "State", isMinor: true, width: "90px", cell: (one) => (one.archived ? "archived" : "") },
];

export default component(() => {
  const { query } = address.value;
  const may = useRights();
  const [name, label, archived] = [query.get("name") ?? "", query.get("label") ?? "", query.get("archived") === "1"];
  const descending = query.get("order") !== "up";
  /** @type {Query} */
  const asked = {
    sortBy: /** @type {NonNullable<Query["sortBy"]>} */ (query.get("sort") ?? "SORT_BY_LAST_UPDATED_TIME"),
    orderBy: descending ? "ORDER_BY_DESC" : "ORDER_BY_ASC",
    ...(name ? { name } : {}),
    ...(label ? { labels: [label] } : {}),
    ...(archived ? {} : { archived: false }),
  };
  const source = useWindows(`models: ${JSON.stringify(asked)}`, async (offset, limit, signal) => {
    const found = await ok(api.GET("/api/v1/models", { params: { query: { ...asked, offset, limit } }, signal }));
    return { rows: found.models, total: found.pagination.total };
  });
  const { labels, workspaces } = useChoices();
  return h(
    "section",
    { class: "full" },
    Heading({
      title: "Models",
      children: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        Search({ label: "Name contains", value: name, onChange: (value) => choose({ name: value }) }),
        h(
          "select",
          { "aria-label": "Label", value: label, onChange: (event) => choose({ label: event.currentTarget.value }) },
          h("option", { value: "" }, "all labels"),
          labels.map((one) => h("option", { key: one, value: one }, one)),
        ),
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
        FormButton({
          verb: "New model",
          title: "New model",
          isMain: true,
          fields: [
            { name: "name", label: "Name", required: true },
            {
              name: "workspaceId",
              label: "Workspace",
              options: workspaces
                .filter((one) => !one.archived && may("CREATE_MODEL_REGISTRY", { workspace: one.id, anybody: true }))
                .map((one) => ({ value: String(one.id), text: one.name })),
            },
            { name: "description", label: "Description", kind: "area" },
            { name: "labels", label: "Labels", hint: "With commas between them" },
          ],
          submit: async (values) => {
            const { model } = await ok(
              api.POST("/api/v1/models", {
                body: {
                  name: values.name ?? "",
                  workspaceId: Number(values.workspaceId),
                  description: values.description ?? "",
                  labels: words(values.labels),
                },
              }),
            );
            go(href(`models/${model.id}`));
          },
        }),
      ),
    }),
    Table({
      label: "Models",
      columns: COLUMNS,
      source,
      rowKey: (one) => one.id,
      link: (one) => href(`models/${one.id}`),
      sort: { by: asked.sortBy ?? "", descending },
      onSort: (sort) => choose({ sort: sort.by, order: sort.descending ? "" : "up" }),
      empty:
        name || label
          ? "No model is like that."
          : "No models yet: make one here, then register a checkpoint as its version with det model register-version.",
    }),
    Command({ text: "det model list" }),
  );
});

function useChoices() {
  const { data } = useLive(
    "models + workspaces: labels and names",
    async (signal) => {
      const [{ labels }, { workspaces }] = await Promise.all([
        ok(api.GET("/api/v1/model/labels", { signal })),
        ok(api.GET("/api/v1/workspaces", { signal })),
      ]);
      return { labels, workspaces };
    },
    { everyMs: 60_000 },
  );
  return data ?? { labels: [], workspaces: [] };
}
