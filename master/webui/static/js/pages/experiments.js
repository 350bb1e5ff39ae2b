// Experiments, of all projects or of one: `experiments`, `projects/ID/experiments`.

import { useEffect, useState } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { duration, percent, shell, value } from "../format.js";
import { component, h } from "../html.js";
import { bind } from "../keys.js";
import { choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { moment } from "../widgets/moment.js";
import { Heading } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";
import { CompareButton } from "./compare_button.js";
import { Actions } from "./experiment_actions.js";
import { chosenOfList, columnsOf, isOfFilter, ListBar, sortOf, UnderBar, useWords } from "./lists.js";
import { ProjectHead, useProject } from "./project_head.js";
import { ViewMenu } from "./saved_views.js";

/** @typedef {import("../store.js").Schemas["ListedExperiment"]} Row */

/** @type {import("../widgets/table.js").Column<Row>[]} */
const COLUMNS = [
  {
    id: "name",
    title: "Name",
    width: "minmax(180px, 2fr)",
    sort: "name",
    cell: ({ experiment }) => `${experiment.id} ${experiment.name}`,
  },
  {
    id: "state",
    title: "State",
    width: "140px",
    sort: "state",
    cell: ({ experiment: one }) => State({ state: one.state, reason: one.waitingReason ?? (one.error || null) }),
  },
  {
    id: "progress",
    title: "Progress",
    width: "80px",
    sort: "progress",
    isNumber: true,
    hint: "Of all training that its search plans",
    cell: ({ experiment }) => percent(number(experiment.progress)),
  },
  {
    id: "trials",
    title: "Trials",
    width: "70px",
    sort: "trials",
    isNumber: true,
    hint: "Made so far",
    cell: ({ experiment }) => experiment.numTrials,
  },
  {
    id: "started",
    title: "Started",
    width: "160px",
    sort: "started",
    isMinor: true,
    cell: ({ experiment }) => moment(experiment.startTime),
  },
  {
    id: "ended",
    title: "Ended",
    width: "160px",
    sort: "ended",
    isMinor: true,
    cell: ({ experiment }) => moment(experiment.endTime),
  },
  {
    id: "duration",
    title: "Duration",
    width: "100px",
    sort: "duration",
    isNumber: true,
    isMinor: true,
    hint: "From the start to the end, or to now",
    cell: ({ experiment }) => duration(experiment.duration),
  },
  {
    id: "user",
    title: "User",
    width: "110px",
    sort: "user",
    cell: ({ experiment }) => experiment.displayName || experiment.username,
  },
  {
    id: "project",
    title: "Project",
    width: "minmax(100px, 1fr)",
    sort: "project",
    isMinor: true,
    cell: ({ experiment: one }) =>
      h(
        "a",
        { href: href(`projects/${one.projectId}/experiments`), tabIndex: -1 },
        `${one.workspaceName} / ${one.projectName}`,
      ),
  },
  {
    id: "pool",
    title: "Pool",
    width: "110px",
    sort: "pool",
    isMinor: true,
    cell: ({ experiment }) => experiment.resourcePool,
  },
  {
    id: "label",
    title: "Labels",
    width: "minmax(80px, 1fr)",
    isMinor: true,
    cell: ({ experiment }) => experiment.labels.join(", "),
  },
  {
    id: "checkpoints",
    title: "Checkpoints",
    width: "100px",
    sort: "checkpoints",
    isNumber: true,
    hint: "Whose files are there",
    isMinor: true,
    cell: ({ experiment }) => value(experiment.checkpointCount),
  },
];
const USUAL = ["state", "progress", "trials", "started", "duration", "user", "project", "pool"];

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
      `experiments + queue: list ${JSON.stringify([asked, order, words])}`,
      async (offset, limit, signal) => {
        const query = { ...asked, sort: order, columns: words, offset, limit };
        const found = await ok(api.GET("/api/v1/windlass/experiments", { params: { query }, signal }));
        return { rows: found.experiments, total: found.pagination.total };
      },
    );
    const known = useWords(`experiments ${project}`, async (signal) => {
      const query = { projectId: project };
      return (await ok(api.GET("/api/v1/windlass/experiments/words", { params: { query }, signal }))).words;
    });
    const live = useProject(project);
    const title = live.data?.name ?? (project ? `Project ${project}` : "Experiments");
    const chooseColumns = () => {
      known.want();
      setChoosing(true);
    };
    const selectAll = async () => {
      const found = await ok(api.GET("/api/v1/windlass/experiments/ids", { params: { query: asked } }));
      setSelected(new Set(found.ids));
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
    const isNarrow = Boolean(chosen.filter);
    return h(
      "section",
      { class: "full" },
      Heading({
        title,
        children: [
          h("a", { key: "new", href: href("new", { project: project || null }) }, "New experiment"),
          ListBar({ key: "bar", chosen, words: known, onColumns: chooseColumns }),
          ViewMenu({ key: "views", list: "experiments", chosen, project: live.data }),
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
      live.data && ProjectHead({ project: live.data, current: "experiments", done: live.refresh }),
      Actions({
        selected,
        total: source.total ?? 0,
        selectAll,
        done: () => {
          setSelected(new Set());
          source.refresh();
        },
      }),
      CompareButton({ kind: "experiments", selected }),
      !problem &&
        Table({
          label: "Experiments",
          columns,
          source,
          rowKey: ({ experiment }) => experiment.id,
          link: ({ experiment }) => href(`experiments/${experiment.id}`),
          sort: sortOf(order),
          onSort: ({ by, descending }) => choose({ sort: descending ? `-${by}` : by, order: "" }),
          selected,
          onSelect: setSelected,
          empty: h(
            "p",
            null,
            isNarrow ? "No experiment is like that." : "No experiments yet. Submit one: ",
            !isNarrow && h("code", null, "det experiment create config.yaml ."),
          ),
        }),
      Command({
        text: isNarrow ? shell`det experiment list --filter ${chosen.filter}` : "det experiment list --all",
      }),
    );
  },
);
