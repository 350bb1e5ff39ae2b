// Runs, which are the trials of all experiments, of all projects or of one: `runs`, `projects/ID/runs`.

import { useEffect, useState } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { duration, shell, value } from "../format.js";
import { component, h } from "../html.js";
import { bind } from "../keys.js";
import { choose, href } from "../router.js";
import { BulkActions } from "../widgets/bulk.js";
import { Command } from "../widgets/command.js";
import { moment } from "../widgets/moment.js";
import { Heading } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";
import { CompareButton } from "./compare_button.js";
import { chosenOfList, columnsOf, isOfFilter, ListBar, sortOf, UnderBar, useWords } from "./lists.js";
import { ProjectHead, useProject } from "./project_head.js";
import { RUN_ACTIONS } from "./run_actions.js";
import { ViewMenu } from "./saved_views.js";

/** @typedef {import("../store.js").Schemas["ListedRun"]} Run */

/** @type {import("../widgets/table.js").Column<Run>[]} */
const COLUMNS = [
  { id: "run", title: "Run", width: "minmax(110px, 1fr)", sort: "run", cell: (run) => `${run.id} ${run.localId}` },
  {
    id: "state",
    title: "State",
    width: "140px",
    sort: "state",
    cell: (run) => State({ state: run.state, reason: run.waitingReason }),
  },
  {
    id: "name",
    title: "Experiment",
    width: "minmax(160px, 2fr)",
    sort: "name",
    cell: (run) =>
      h(
        "a",
        { href: href(`experiments/${run.experimentId}`), tabIndex: -1 },
        `${run.experimentId} ${run.experimentName}`,
      ),
  },
  {
    id: "best",
    title: "Best",
    width: "100px",
    sort: "best",
    isNumber: true,
    hint: "The best value of the searcher's metric",
    cell: (run) => value(number(run.searcherMetricValue)),
  },
  { id: "started", title: "Started", width: "160px", sort: "started", cell: (run) => moment(run.startTime) },
  { id: "ended", title: "Ended", width: "160px", sort: "ended", isMinor: true, cell: (run) => moment(run.endTime) },
  {
    id: "duration",
    title: "Duration",
    width: "100px",
    sort: "duration",
    isNumber: true,
    isMinor: true,
    hint: "From the start to the end, or to now",
    cell: (run) => duration(run.duration),
  },
  {
    id: "checkpoints",
    title: "Checkpoints",
    width: "100px",
    sort: "checkpoints",
    isNumber: true,
    hint: "Whose files are there",
    isMinor: true,
    cell: (run) => run.checkpointCount,
  },
  { id: "user", title: "User", width: "110px", sort: "user", cell: (run) => run.displayName || run.username },
  {
    id: "project",
    title: "Project",
    width: "minmax(100px, 1fr)",
    sort: "project",
    isMinor: true,
    cell: (run) =>
      h(
        "a",
        { href: href(`projects/${run.projectId}/runs`), tabIndex: -1 },
        `${run.workspaceName} / ${run.projectName}`,
      ),
  },
  { id: "pool", title: "Pool", width: "110px", sort: "pool", isMinor: true, cell: (run) => run.resourcePool },
  {
    id: "label",
    title: "Labels",
    width: "minmax(80px, 1fr)",
    isMinor: true,
    cell: (run) => run.labels.join(", "),
  },
];
const USUAL = ["state", "name", "best", "started", "duration", "user", "project"];

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const project = Number(params.project ?? 0);
    const [selected, setSelected] = useState(/** @type {ReadonlySet<string | number>} */ (new Set()));
    const [isChoosing, setChoosing] = useState(false);
    const chosen = chosenOfList();
    const { columns, words } = columnsOf(COLUMNS, USUAL, chosen, (row) => row.values);
    const asked = { projectId: project, filter: chosen.filter, archived: chosen.archived };
    const order = chosen.sort || "-started";
    const source = useWindows(
      `experiments: runs ${JSON.stringify([asked, order, words])}`,
      async (offset, limit, signal) => {
        const query = { ...asked, sort: order, columns: words, offset, limit };
        const found = await ok(api.GET("/api/v1/windlass/runs", { params: { query }, signal }));
        return { rows: found.runs, total: found.pagination.total };
      },
    );
    const known = useWords(`runs ${project}`, async (signal) => {
      const query = { projectId: project };
      return (await ok(api.GET("/api/v1/windlass/runs/words", { params: { query }, signal }))).words;
    });
    const live = useProject(project);
    const chooseColumns = () => {
      known.want();
      setChoosing(true);
    };
    useEffect(
      () =>
        bind({
          e: chooseColumns,
          Escape: () => setSelected(new Set()),
        }),
      [],
    );
    const problem = isOfFilter(source.error) ? source.error : null;
    return h(
      "section",
      { class: "full" },
      Heading({
        title: project ? `Runs of ${live.data?.name ?? `workspaces: project ${project}`}` : "Runs",
        children: [
          ListBar({ key: "bar", chosen, words: known, onColumns: chooseColumns }),
          ViewMenu({ key: "views", list: "runs", chosen, project: live.data }),
        ],
      }),
      UnderBar({
        chosen,
        error: problem,
        known: COLUMNS,
        usual: USUAL,
        words: known.words,
        isChoosing,
        onClose: () => setChoosing(false),
      }),
      live.data && ProjectHead({ project: live.data, current: "runs", done: live.refresh }),
      BulkActions({
        noun: "run",
        actions: RUN_ACTIONS,
        selected,
        total: source.total ?? 0,
        selectAll: async () => {
          const found = await ok(api.GET("/api/v1/windlass/runs/ids", { params: { query: asked } }));
          setSelected(new Set(found.ids));
        },
        done: () => {
          setSelected(new Set());
          source.refresh();
        },
      }),
      CompareButton({ kind: "trials", selected }),
      !problem &&
        Table({
          label: "Runs",
          columns,
          source,
          rowKey: (run) => run.id,
          link: (run) => href(`experiments/${run.experimentId}/trials/${run.id}`),
          sort: sortOf(order),
          onSort: ({ by, descending }) => choose({ sort: descending ? `-${by}` : by }),
          selected,
          onSelect: setSelected,
          empty: h("p", null, chosen.filter ? "No run is like that." : "No runs yet: they come with experiments."),
        }),
      Command({ text: chosen.filter ? shell`det run list --filter ${chosen.filter}` : "det run list --all" }),
    );
  },
);
