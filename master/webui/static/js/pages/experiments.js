// Experiments, of all projects or of one: `experiments`, `projects/ID/experiments`.

import { useEffect, useState } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { duration, percent } from "../format.js";
import { component, h } from "../html.js";
import { bind } from "../keys.js";
import { useLive } from "../live.js";
import { address, choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { moment } from "../widgets/moment.js";
import { Search } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";
import { Actions } from "./experiment_actions.js";
import { ProjectHead } from "./project_head.js";

/** @typedef {import("../store.js").Schemas["Experiment"]} Experiment */
/** @typedef {import("../openapi.js").operations} Operations */
/** @typedef {NonNullable<Operations["experiments_list_experiments"]["parameters"]["query"]>} Query */
/** @typedef {NonNullable<Query["sortBy"]>} SortBy */

const STATES = /** @type {const} */ (["QUEUED", "STARTING", "RUNNING", "PAUSED", "COMPLETED", "CANCELED", "ERROR"]);

/** @type {import("../widgets/table.js").Column<Experiment>[]} */
const COLUMNS = [
  {
    id: "name",
    title: "Name",
    width: "minmax(180px, 2fr)",
    sort: "SORT_BY_NAME",
    cell: (one) => `${one.id} ${one.name}`,
  },
  {
    id: "state",
    title: "State",
    width: "140px",
    sort: "SORT_BY_STATE",
    cell: (one) => State({ state: one.state, reason: one.waitingReason ?? (one.error || null) }),
  },
  {
    id: "progress",
    title: "Progress",
    width: "80px",
    sort: "SORT_BY_PROGRESS",
    isNumber: true,
    cell: (one) => percent(number(one.progress)),
  },
  {
    id: "trials",
    title: "Trials",
    width: "70px",
    sort: "SORT_BY_NUM_TRIALS",
    isNumber: true,
    cell: (one) => one.numTrials,
  },
  {
    id: "start",
    title: "Started",
    width: "160px",
    sort: "SORT_BY_START_TIME",
    isMinor: true,
    cell: (one) => moment(one.startTime),
  },
  {
    id: "duration",
    title: "Duration",
    width: "100px",
    isNumber: true,
    isMinor: true,
    hint: "From the start to the end, or to now",
    cell: (one) => duration(one.duration),
  },
  { id: "user", title: "User", width: "110px", sort: "SORT_BY_USER", cell: (one) => one.displayName || one.username },
  {
    id: "project",
    title: "Project",
    width: "minmax(100px, 1fr)",
    isMinor: true,
    cell: (one) =>
      h(
        "a",
        { href: href(`projects/${one.projectId}/experiments`), tabIndex: -1 },
        `${one.workspaceName} / ${one.projectName}`,
      ),
  },
  { id: "pool", title: "Pool", width: "110px", isMinor: true, cell: (one) => one.resourcePool },
];

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const project = Number(params.project ?? 0);
    const { query } = address.value;
    const [selected, setSelected] = useState(/** @type {ReadonlySet<string | number>} */ (new Set()));
    const chosen = {
      name: query.get("name") ?? "",
      state: query.get("state") ?? "",
      archived: query.get("archived") === "1",
      by: query.get("sort") ?? "SORT_BY_START_TIME",
      descending: query.get("order") !== "up",
    };
    /** @type {Query} */
    const asked = {
      omitConfig: true,
      orderBy: chosen.descending ? "ORDER_BY_DESC" : "ORDER_BY_ASC",
      sortBy: /** @type {SortBy} */ (chosen.by),
      ...(project ? { projectId: project } : {}),
      ...(chosen.name ? { name: chosen.name } : {}),
      ...(chosen.archived ? {} : { archived: false }),
      states: STATES.filter((state) => state === chosen.state).map((state) => /** @type {const} */ (`STATE_${state}`)),
    };
    const source = useWindows(`experiments + queue: ${JSON.stringify(asked)}`, async (offset, limit, signal) => {
      const found = await ok(
        api.GET("/api/v1/experiments", { params: { query: { ...asked, offset, limit } }, signal }),
      );
      return { rows: found.experiments, total: found.pagination.total };
    });
    const live = useProject(project);
    const title = live.data?.name ?? (project ? `Project ${project}` : "Experiments");
    useEffect(() => void (document.title = `${title} · Windlass`), [title]);
    useEffect(
      () => bind({ f: () => document.getElementById("filter")?.focus(), Escape: () => setSelected(new Set()) }),
      [],
    );
    return h(
      "section",
      { class: "full" },
      h(
        "div",
        { class: "title" },
        h("h1", null, title),
        h(
          "form",
          { class: "bar", onSubmit: (event) => event.preventDefault() },
          Search({ label: "Name contains", value: chosen.name, onChange: (name) => choose({ name }) }),
          h(
            "select",
            {
              "aria-label": "State",
              value: chosen.state,
              onChange: (event) => choose({ state: event.currentTarget.value }),
            },
            h("option", { value: "" }, "all states"),
            STATES.map((state) => h("option", { key: state, value: state }, state.toLowerCase())),
          ),
          h(
            "label",
            null,
            h("input", {
              type: "checkbox",
              checked: chosen.archived,
              onChange: (event) => choose({ archived: event.currentTarget.checked ? "1" : "" }),
            }),
            " archived too",
          ),
        ),
      ),
      live.data && ProjectHead({ project: live.data, current: "experiments", done: live.refresh }),
      Actions({
        selected,
        done: () => {
          setSelected(new Set());
          source.refresh();
        },
      }),
      Table({
        label: "Experiments",
        columns: COLUMNS,
        source,
        rowKey: (one) => one.id,
        link: (one) => href(`experiments/${one.id}`),
        sort: chosen,
        onSort: ({ by, descending }) => choose({ sort: by, order: descending ? "" : "up" }),
        selected,
        onSelect: setSelected,
        empty: h(
          "p",
          null,
          chosen.name || chosen.state ? "No experiment is like that." : "No experiments yet. Submit one: ",
          !chosen.name && !chosen.state && h("code", null, "det experiment create config.yaml ."),
        ),
      }),
      Command({ text: "det experiment list" }),
    );
  },
);

/** @param {number} project 0: none */
function useProject(project) {
  return useLive(`workspaces: project ${project}`, async (signal) =>
    project
      ? (await ok(api.GET("/api/v1/projects/{id}", { params: { path: { id: project } }, signal }))).project
      : null,
  );
}
