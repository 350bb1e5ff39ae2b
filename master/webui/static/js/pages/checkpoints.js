// The checkpoints of an experiment or a trial: download one, make a version of a model of it, delete some.

import { useState } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { bytes, count, shell, value } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { ROOT, address, choose, go, href } from "../router.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { FormButton, words } from "../widgets/form.js";
import { moment } from "../widgets/moment.js";
import { State } from "../widgets/state.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";

/** @typedef {import("../store.js").Schemas["Checkpoint"]} Checkpoint */
/** @typedef {import("../openapi.js").operations["checkpoints_of_trial"]["parameters"]["query"]} Query */
/** @typedef {NonNullable<NonNullable<Query>["sortByAttr"]>} SortBy */
/** @typedef {{ kind: "experiment" | "trial", id: number, workspace?: number }} Of */

const STORED = new Set(["STATE_COMPLETED", "STATE_PARTIALLY_DELETED"]);
const STATES = /** @type {const} */ (["ACTIVE", "COMPLETED", "PARTIALLY_DELETED", "DELETED", "ERROR"]);

/** @param {Checkpoint} one */
function sizeOf(one) {
  return Object.values(one.resources).reduce((all, size) => all + (number(size) ?? 0), 0);
}

/** @type {import("../widgets/table.js").Column<Checkpoint>[]} */
const COLUMNS = [
  { id: "uuid", title: "Checkpoint", width: "minmax(120px, 2fr)", cell: (one) => one.uuid },
  {
    id: "state",
    title: "State",
    width: "150px",
    sort: "SORT_BY_STATE",
    cell: (one) => State({ state: one.state }),
  },
  {
    id: "step",
    title: "Step",
    width: "90px",
    isNumber: true,
    sort: "SORT_BY_BATCH_NUMBER",
    hint: "Steps completed when it was saved",
    cell: (one) => value(one.metadata.steps_completed),
  },
  {
    id: "metric",
    title: "Metric",
    width: "110px",
    isNumber: true,
    sort: "SORT_BY_SEARCHER_METRIC",
    hint: "The searcher's metric, validated at the same step",
    cell: (one) => value(number(one.training.searcherMetric)),
  },
  {
    id: "size",
    title: "Size",
    width: "100px",
    isNumber: true,
    hint: "Of the files that are left",
    cell: (one) => bytes(sizeOf(one)),
  },
  {
    id: "saved",
    title: "Saved",
    width: "170px",
    sort: "SORT_BY_END_TIME",
    isMinor: true,
    cell: (one) => moment(one.reportTime),
  },
];

/** @type {import("../widgets/table.js").Column<Checkpoint>} */
const TRIAL = {
  id: "trial",
  title: "Trial",
  width: "90px",
  sort: "SORT_BY_TRIAL_ID",
  cell: ({ training: { trialId } }) =>
    trialId === null ? "" : h("a", { href: href(`trials/${trialId}/checkpoints`), tabIndex: -1 }, trialId),
};

export const Checkpoints = component(
  /** @param {{ of: Of }} props */
  ({ of }) => {
    const { kind, id } = of;
    const { query } = address.value;
    const by = /** @type {SortBy} */ (query.get("sort") ?? "SORT_BY_END_TIME");
    const descending = query.get("order") !== "up";
    const states = STATES.filter((state) => state === query.get("state")).map(
      (state) => /** @type {const} */ (`STATE_${state}`),
    );
    const [selected, setSelected] = useState(/** @type {Map<string, Checkpoint>} */ (new Map()));
    const asked = {
      omitConfig: true,
      sortByAttr: by,
      orderBy: descending ? /** @type {const} */ ("ORDER_BY_DESC") : /** @type {const} */ ("ORDER_BY_ASC"),
      states,
    };
    const source = useWindows(`${kind} ${id}: checkpoints ${JSON.stringify(asked)}`, async (offset, limit, signal) => {
      const params = { path: { id }, query: { ...asked, offset, limit } };
      const found = await (kind === "trial"
        ? ok(api.GET("/api/v1/trials/{id}/checkpoints", { params, signal }))
        : ok(api.GET("/api/v1/experiments/{id}/checkpoints", { params, signal })));
      return { rows: found.checkpoints, total: found.pagination.total };
    });
    const done = () => {
      setSelected(new Map());
      source.refresh();
    };
    const select = (/** @type {Set<string | number>} */ keys) => {
      const known = new Map(selected);
      for (let index = 0; index < (source.total ?? 0); index += 1) {
        const row = source.row(index);
        if (row && keys.has(row.uuid)) known.set(row.uuid, row);
      }
      setSelected(new Map([...known].filter(([uuid]) => keys.has(uuid))));
    };
    return group(
      h(
        "div",
        { class: "bar" },
        h(
          "select",
          {
            "aria-label": "State",
            value: query.get("state") ?? "",
            onChange: (event) => choose({ state: event.currentTarget.value }),
          },
          h("option", { value: "" }, "all states"),
          STATES.map((state) => h("option", { key: state, value: state }, state.toLowerCase().replaceAll("_", " "))),
        ),
        Actions({ some: [...selected.values()], workspace: of.workspace, done }),
      ),
      Table({
        label: "Checkpoints",
        columns: kind === "trial" ? COLUMNS : [...COLUMNS, TRIAL],
        source,
        rowKey: (one) => one.uuid,
        sort: { by, descending },
        onSort: (sort) => choose({ sort: sort.by, order: sort.descending ? "" : "up" }),
        selected: new Set(selected.keys()),
        onSelect: select,
        empty: states.length ? "No checkpoint is like that." : "No checkpoints yet: training code saves them.",
      }),
      Command({
        text: kind === "trial" ? shell`det trial describe ${id}` : shell`det experiment list-checkpoints ${id}`,
      }),
    );
  },
);

const Actions = component(
  /** @param {{ some: Checkpoint[], workspace: number | undefined, done: () => void }} props */
  ({ some, workspace, done }) => {
    const may = useRights();
    const [one, ...more] = some;
    if (!one) return h("span", { class: "note" }, "Select checkpoints to download, register or delete them.");
    const isOne = more.length === 0;
    const them = isOne ? `checkpoint ${one.uuid}` : count(some.length, "checkpoint");
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the selected checkpoints" },
      isOne &&
        STORED.has(one.state) && [
          h(
            "a",
            { key: "download", href: `${ROOT}checkpoints/${encodeURIComponent(one.uuid)}`, target: "_blank" },
            "Download as an archive",
          ),
          Register({ key: "register", checkpoint: one, workspace }),
        ],
      // Of a trial the workspace is not known here: the master decides.
      (workspace === undefined || may("UPDATE_EXPERIMENT", { workspace, anybody: true })) &&
        Act({
          verb: "Delete",
          of: them,
          said: `Deleting ${them}.`,
          act: () => ok(api.DELETE("/api/v1/checkpoints", { body: { checkpointUuids: some.map(({ uuid }) => uuid) } })),
          done,
          question: {
            title: `Delete ${them}?`,
            text:
              `${bytes(some.reduce((all, each) => all + sizeOf(each), 0))} of files go, for ever. Trials that would ` +
              "go on from there begin at an earlier one.",
          },
        }),
    );
  },
);

const NEW = "";

const Register = component(
  /** @param {{ checkpoint: Checkpoint, workspace: number | undefined }} props */
  ({ checkpoint: { uuid }, workspace }) => {
    const may = useRights();
    const models = useLive("models: their names", async (signal) => {
      const query = { limit: 500, archived: false, sortBy: /** @type {const} */ ("SORT_BY_NAME") };
      return (await ok(api.GET("/api/v1/models", { params: { query }, signal }))).models;
    }).data;
    const mine = (models ?? []).filter((one) =>
      may("EDIT_MODEL_REGISTRY", { workspace: one.workspaceId, owner: one.userId }),
    );
    if (!models) return null;
    return FormButton({
      verb: "Register as a model version",
      title: `Register checkpoint ${uuid}`,
      fields: [
        {
          name: "model",
          label: "Model",
          options: [
            ...mine.map((one) => ({ value: String(one.id), text: one.name })),
            { value: NEW, text: "A new model" },
          ],
        },
        { name: "newName", label: "Name of a new model", hint: "Only for a new one" },
        { name: "name", label: "Name of the version" },
        { name: "comment", label: "Comment", kind: "area" },
        { name: "labels", label: "Labels", hint: "With commas between them" },
      ],
      submit: async ({ model, newName, labels, ...rest }) => {
        const id = model || (await created(newName ?? "", workspace));
        const { modelVersion } = await ok(
          api.POST("/api/v1/models/{model_name}/versions", {
            params: { path: { model_name: id } },
            body: { checkpointUuid: uuid, labels: words(labels), ...rest },
          }),
        );
        go(href(`models/${id}/versions/${modelVersion.version}`));
      },
    });
  },
);

/** @param {string} name @param {number | undefined} workspace */
async function created(name, workspace) {
  if (!name) throw new Error("newName: a new model needs a name");
  const body = { name, ...(workspace === undefined ? {} : { workspaceId: workspace }) };
  return String((await ok(api.POST("/api/v1/models", { body }))).model.id);
}
