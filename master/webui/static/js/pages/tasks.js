// What users started beside experiments: notebooks, commands, shells, TensorBoards, generic tasks: `tasks/KIND`.

import { useEffect, useLayoutEffect, useState } from "../../vendor/hooks.js";
import { duration, fullTime, shell, stateName } from "../format.js";
import { component, group, h } from "../html.js";
import { bind } from "../keys.js";
import { ROOT, address, choose, href } from "../router.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { moment } from "../widgets/moment.js";
import { State } from "../widgets/state.js";
import { Table } from "../widgets/table.js";
import { Tabs } from "../widgets/tabs.js";
import { useWindows } from "../widgets/windows.js";
import { Launch, mayLaunch } from "./launch.js";
import { KINDS } from "./task_kinds.js";

/** @typedef {import("./task_kinds.js").Task} Task */
/** @typedef {import("./task_kinds.js").Kind} Kind */

/** @type {import("../widgets/table.js").Column<Task>[]} */
const COLUMNS = [
  { id: "name", title: "Name", width: "minmax(160px, 2fr)", cell: (one) => one.name || one.id },
  { id: "state", title: "State", width: "120px", cell: (one) => State({ state: one.state, reason: one.why }) },
  {
    id: "why",
    title: "Why",
    width: "minmax(140px, 2fr)",
    hint: "Why it waits, or how it ended",
    cell: (one) => h("span", { title: one.why ?? undefined }, one.why),
  },
  {
    id: "start",
    title: "Submitted",
    width: "160px",
    isMinor: true,
    cell: (one) => moment(one.start),
  },
  {
    id: "idle",
    title: "Idle",
    width: "110px",
    isNumber: true,
    hint: "Since its last use, where it is ended after some time without",
    cell: idle,
  },
  { id: "pool", title: "Pool", width: "110px", isMinor: true, cell: (one) => one.pool },
  { id: "user", title: "User", width: "110px", cell: (one) => one.user },
];

/** @param {Task} one */
function idle({ lastActivity, idleEndsAt }) {
  if (!lastActivity || !idleEndsAt) return "";
  const title = `Ends ${fullTime(idleEndsAt)} if nobody uses it until then`;
  return h("span", { title }, duration((Date.now() - Date.parse(lastActivity)) / 1000));
}

/** @param {Task} one */
function isOver({ end }) {
  return end !== null;
}

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const kind = KINDS.find((one) => one.id === (params.kind ?? KINDS[0]?.id));
    useEffect(() => void (document.title = `${kind?.title ?? "Tasks"} · Windlass`), [kind]);
    return h(
      "section",
      { class: "full" },
      h("div", { class: "title" }, h("h1", null, "Tasks")),
      Tabs({
        label: "Kinds of tasks",
        current: kind?.id ?? "",
        tabs: KINDS.map(({ id, title }) => ({ id, title, href: href(`tasks/${id}`) })),
      }),
      kind
        ? Tasks({ key: kind.id, kind })
        : h("p", { class: "empty" }, `There is no such kind of task: ${params.kind ?? ""}`),
    );
  },
);

const Tasks = component(
  /** @param {{ kind: Kind }} props */
  ({ kind }) => {
    const source = useWindows(`tasks + queue: ${kind.id}`, kind.load);
    const chosen = address.value.query.get("task") ?? "";
    const [launches, setLaunches] = useState(false);
    useLayoutEffect(() => bind({ Escape: () => choose({ task: "" }) }), []);
    return group(
      mayLaunch(kind) &&
        h(
          "p",
          null,
          h("button", { type: "button", class: "plain", onClick: () => setLaunches(true) }, `Start a ${kind.det}…`),
        ),
      launches &&
        Launch({
          kind,
          onClose: () => setLaunches(false),
          onLaunch: (id) => {
            setLaunches(false);
            choose({ task: id });
            source.refresh();
          },
        }),
      Table({
        label: kind.title,
        columns: COLUMNS,
        source,
        rowKey: (one) => one.id,
        link: (one) => href(`tasks/${encodeURIComponent(one.id)}/logs`),
        selected: new Set(chosen ? [chosen] : []),
        onSelect: (keys) => choose({ task: [...keys].filter((key) => key !== chosen).map(String)[0] ?? "" }),
        empty: h("p", null, "None yet. Start one: ", h("code", null, kind.start)),
      }),
      chosen && Chosen({ key: chosen, kind, source, id: chosen }),
      !chosen && h("p", { class: "note" }, "Select one (x) to open, connect to or end it."),
      Command({ text: `det ${kind.det} list` }),
    );
  },
);

const Chosen = component(
  /** @param {{ kind: Kind, source: import("../widgets/windows.js").Source<Task>, id: string }} props */
  ({ kind, source, id }) => {
    const task = find(source, id);
    if (!task) return h("p", { class: "note", role: "status" }, "It is not in sight, or not of this kind.");
    const connect = kind.connect(id);
    return h(
      "section",
      { class: "drawer", "aria-label": "The selected task", tabIndex: 0 },
      h("p", null, h("strong", null, task.name || id), " ", State({ state: task.state }), task.why && ` ${task.why}`),
      Facts({
        facts: [
          ["Id", id],
          ["Submitted", moment(task.start)],
          ["Ended", moment(task.end)],
          ["Last used", moment(task.lastActivity)],
          ["Ends if not used until", moment(task.idleEndsAt), "idle_timeout of its configuration after its last use"],
          ["Pool", h("a", { href: href(`queue/${encodeURIComponent(task.pool)}`) }, task.pool)],
        ],
      }),
      h(
        "div",
        { class: "bar", role: "toolbar", "aria-label": "Of the selected task" },
        kind.page && !isOver(task) && h("a", { href: pageOf(kind.page, id), "data-reload": "" }, "Open"),
        h("a", { href: href(`tasks/${encodeURIComponent(id)}/logs`) }, "Logs"),
        task.jobId && !isOver(task) && h("a", { href: href(`jobs/${encodeURIComponent(task.jobId)}`) }, "Why it waits"),
        !isOver(task) &&
          Act({
            verb: "Kill",
            act: () => kind.kill(id),
            done: source.refresh,
            question: {
              title: `Kill ${stateName(kind.det)} ${task.name || id}?`,
              text: "What runs in it is lost, but what it wrote to mounted folders; its log stays.",
            },
          }),
      ),
      connect && !isOver(task) && Command({ text: connect }),
      !isOver(task) && Command({ text: shell`det ${kind.det} kill ${id}` }),
    );
  },
);

/** The page that waits until it can be opened, and goes on to it. @param {string} word @param {string} id */
function pageOf(word, id) {
  return `${ROOT}det/wait/${word}/${encodeURIComponent(id)}`;
}

/** @param {import("../widgets/windows.js").Source<Task>} source @param {string} id */
function find(source, id) {
  for (let at = 0; at < (source.total ?? 0); at += 1) {
    const row = source.row(at);
    if (row?.id === id) return row;
  }
  return null;
}
