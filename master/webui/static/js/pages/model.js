// One model: what it is, and its versions.

import { api, number, ok } from "../api.js";
import { shell, value } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { go, href } from "../router.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { FormButton, words } from "../widgets/form.js";
import { moment } from "../widgets/moment.js";
import { Heading, pending } from "../widgets/page.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";

/** @typedef {import("../store.js").Schemas} Schemas */

/** @type {import("../widgets/table.js").Column<Schemas["ModelVersion"]>[]} */
const COLUMNS = [
  { id: "version", title: "Version", width: "minmax(120px, 1fr)", cell: (one) => `${one.version} ${one.name}` },
  {
    id: "metric",
    title: "Metric",
    width: "120px",
    isNumber: true,
    hint: "The searcher's metric at the checkpoint",
    cell: (one) => value(number(one.checkpoint.training.searcherMetric)),
  },
  {
    id: "trial",
    title: "Trial",
    width: "100px",
    cell: ({ checkpoint: { training } }) =>
      training.trialId === null
        ? ""
        : h("a", { href: href(`trials/${training.trialId}`), tabIndex: -1 }, `trial ${training.trialId}`),
  },
  { id: "comment", title: "Comment", width: "minmax(120px, 2fr)", cell: (one) => one.comment },
  { id: "labels", title: "Labels", isMinor: true, cell: (one) => one.labels.join(", ") },
  { id: "user", title: "Registered by", isMinor: true, cell: (one) => one.username },
  {
    id: "created",
    title: "Registered",
    width: "160px",
    isMinor: true,
    cell: (one) => moment(one.creationTime),
  },
];

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const named = params.model ?? "";
    const live = useLive(`models: ${named}`, async (signal) =>
      ok(api.GET("/api/v1/models/{model_name}", { params: { path: { model_name: named } }, signal })),
    );
    const model = live.data?.model;
    const source = useWindows(`models: versions of ${named}`, async (offset, limit, signal) => {
      const params = {
        path: { model_name: named },
        query: {
          offset,
          limit,
          sortBy: /** @type {const} */ ("SORT_BY_VERSION"),
          orderBy: /** @type {const} */ ("ORDER_BY_DESC"),
        },
      };
      const found = await ok(api.GET("/api/v1/models/{model_name}/versions", { params, signal }));
      return { rows: found.modelVersions, total: found.pagination.total };
    });
    if (!model) return pending(live);
    return h(
      "section",
      { class: "full" },
      Heading({ title: model.name, children: Actions({ model, done: live.refresh }) }),
      model.description && h("p", null, model.description),
      Facts({
        facts: [
          ["Owner", model.username],
          ["Workspace", h("a", { href: href(`workspaces/${model.workspaceId}`) }, `workspace ${model.workspaceId}`)],
          ["Labels", model.labels.join(", ")],
          ["Changed", moment(model.lastUpdatedTime)],
          ["State", model.archived ? "archived" : ""],
          ["Metadata", Object.keys(model.metadata).length ? value(model.metadata) : ""],
        ],
      }),
      model.notes && h("pre", { tabIndex: 0, "aria-label": "Notes" }, model.notes),
      Table({
        label: "Versions",
        columns: COLUMNS,
        source,
        rowKey: (one) => one.version,
        link: (one) => href(`models/${model.id}/versions/${one.version}`),
        empty: h(
          "p",
          null,
          "No versions yet. Register a checkpoint as one: ",
          h("code", null, `det model register-version ${model.id} CHECKPOINT_UUID`),
        ),
      }),
      Command({ text: shell`det model list-versions ${model.id}` }),
    );
  },
);

const Actions = component(
  /** @param {{ model: Schemas["Model"], done: () => void }} props */
  ({ model, done }) => {
    const may = useRights();
    const workspaces = useLive(
      "workspaces: their names",
      async (signal) => (await ok(api.GET("/api/v1/workspaces", { signal }))).workspaces,
      { everyMs: 60_000 },
    ).data;
    const params = { path: { model_name: String(model.id) } };
    const target = { workspace: model.workspaceId, owner: model.userId };
    const isMine = may("EDIT_MODEL_REGISTRY", target);
    const others = (workspaces ?? []).filter(({ id, archived }) => id !== model.workspaceId && !archived);
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the model" },
      isMine && [
        FormButton({
          key: "edit",
          verb: "Edit",
          title: `Edit ${model.name}`,
          fields: [
            { name: "name", label: "Name", value: model.name, required: true },
            { name: "description", label: "Description", value: model.description, kind: "area" },
            { name: "labels", label: "Labels", value: model.labels.join(", "), hint: "With commas between them" },
            { name: "notes", label: "Notes", value: model.notes, kind: "code" },
          ],
          submit: ({ labels, ...rest }) =>
            ok(api.PATCH("/api/v1/models/{model_name}", { params, body: { ...rest, labels: words(labels) } })),
          done,
        }),
        Act({
          key: "archive",
          verb: model.archived ? "Unarchive" : "Archive",
          act: () =>
            model.archived
              ? ok(api.POST("/api/v1/models/{model_name}/unarchive", { params }))
              : ok(api.POST("/api/v1/models/{model_name}/archive", { params })),
          done,
        }),
        others.length > 0 &&
          FormButton({
            key: "move",
            verb: "Move",
            title: `Move ${model.name}`,
            fields: [
              {
                name: "destinationWorkspaceId",
                label: "To workspace",
                options: others.map((one) => ({ value: String(one.id), text: one.name })),
              },
            ],
            submit: ({ destinationWorkspaceId }) =>
              ok(
                api.POST("/api/v1/models/{model_name}/move", {
                  params,
                  body: { destinationWorkspaceId: Number(destinationWorkspaceId) },
                }),
              ),
            done,
          }),
      ],
      may("DELETE_MODEL_REGISTRY", target) &&
        Act({
          verb: "Delete",
          act: async () => {
            await ok(api.DELETE("/api/v1/models/{model_name}", { params }));
            go(href("models"));
          },
          question: {
            title: `Delete model ${model.name}?`,
            text: `Its ${model.numVersions} versions go with it; their checkpoints stay. This cannot be undone.`,
          },
        }),
    );
  },
);
