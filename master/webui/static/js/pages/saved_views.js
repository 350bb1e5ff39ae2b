// Views of a list: its filter, order and columns under a name, for oneself or for all who see a project or a workspace.

import { useEffect, useRef } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose } from "../router.js";
import { me } from "../store.js";
import { Act } from "../widgets/act.js";
import { FormButton } from "../widgets/form.js";
import { columnsWord } from "./lists.js";

/** @typedef {import("../store.js").Schemas["SavedView"]} SavedView */
/** @typedef {{ id: number, name: string, workspaceId: number, workspaceName: string }} Project */

const EVERY_MS = 30_000;
const SAID = ["filter", "sort", "columns", "archived"];

export const ViewMenu = component(
  /**
   * @param {object} props
   * @param {"experiments" | "runs"} props.list
   * @param {import("./lists.js").Chosen} props.chosen
   * @param {Project | null} props.project
   */
  ({ list, chosen, project }) => {
    const { data, refresh } = useLive(
      `workspaces + me: views ${list}`,
      async (signal) => (await ok(api.GET("/api/v1/windlass/views", { params: { query: { list } }, signal }))).views,
      { everyMs: EVERY_MS },
    );
    const { query } = address.value;
    const key = query.get("view") ?? "";
    const view = data?.find((one) => keyOf(one) === key);
    const opened = useRef("");
    useEffect(() => {
      if (!view || opened.current === key) return;
      opened.current = key;
      // A short address, with the name of a view alone. Later changes are the reader's.
      if (!SAID.some((word) => query.has(word)) && differs(view, chosen)) show(view);
    });
    const isMine = view !== undefined && view.ownerId === me.value?.id;
    return h(
      "div",
      { class: "bar" },
      h(
        "select",
        {
          "aria-label": "View",
          value: view ? key : "",
          onChange: (event) => show(data?.find((one) => keyOf(one) === event.currentTarget.value)),
        },
        h("option", { value: "" }, "no saved view"),
        data?.map((one) =>
          h(
            "option",
            { key: keyOf(one), value: keyOf(one) },
            one.ownerId === me.value?.id ? one.name : `${one.name} (${one.username})`,
          ),
        ),
      ),
      FormButton({
        key: `save ${key}`,
        verb: isMine && differs(view, chosen) ? "Save changes…" : "Save view…",
        title: "Save this view",
        fields: [
          { name: "name", label: "Name", value: view?.name ?? "", required: true },
          { name: "share", label: "Shown to", options: places(project), value: view ? placeOf(view) : "" },
        ],
        submit: async ({ name = "", share = "" }) => {
          const { filter, sort, columns, archived } = chosen;
          const body = { list, name, filter, sort, columns, archived, ...whereOf(share) };
          await ok(api.PUT("/api/v1/windlass/views", { body }));
          choose({ view: `${me.value?.id}/${name}` });
        },
        done: refresh,
      }),
      isMine &&
        Act({
          verb: "Delete view",
          act: () => ok(api.DELETE("/api/v1/windlass/views", { body: { list, name: view.name } })),
          done: () => {
            choose({ view: "" });
            refresh();
          },
          question: { title: `Delete view ${view.name}?`, text: "What it shows stays." },
        }),
    );
  },
);

/** @param {SavedView} view */
function keyOf(view) {
  return `${view.ownerId}/${view.name}`;
}

/** In the address, so that it is the same for whoever gets it. @param {SavedView | undefined} view none: everything */
function show(view) {
  choose({
    view: view ? keyOf(view) : "",
    filter: view?.filter,
    sort: view?.sort,
    columns: columnsWord(view?.columns ?? null),
    archived: view?.archived ? "1" : "",
    name: "",
    state: "",
  });
}

/** @param {SavedView} view @param {import("./lists.js").Chosen} chosen */
function differs(view, chosen) {
  const of = (/** @type {import("./lists.js").Chosen} */ one) =>
    JSON.stringify([one.filter, one.sort, one.columns, one.archived]);
  return of(view) !== of(chosen);
}

/** @param {Project | null} project */
function places(project) {
  const nobody = { value: "", text: "nobody else" };
  if (!project) return [nobody];
  return [
    nobody,
    { value: `project ${project.id}`, text: `all who see project ${project.name}` },
    { value: `workspace ${project.workspaceId}`, text: `all who see workspace ${project.workspaceName}` },
  ];
}

/** @param {string} place */
function whereOf(place) {
  const [kind, id] = place.split(" ");
  if (!kind) return {};
  return kind === "project" ? { projectId: Number(id) } : { workspaceId: Number(id) };
}

/** @param {SavedView} view */
function placeOf(view) {
  if (view.projectId) return `project ${view.projectId}`;
  return view.workspaceId ? `workspace ${view.workspaceId}` : "";
}
