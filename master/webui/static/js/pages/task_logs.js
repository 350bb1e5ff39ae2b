// The log of any task: `tasks/ID/logs`, and the addresses that the published client prints for its kinds.

import { useEffect } from "../../vendor/hooks.js";
import { api, lines, ok } from "../api.js";
import { shell } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { LogView } from "../widgets/log_view.js";
import { pending } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { logQuery } from "./logs.js";

/** @typedef {import("../store.js").Schemas["TaskLog"]} TaskLog */

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const id = params.task ?? "";
    const { data, error, refresh } = useLive(
      `task ${id} + queue`,
      async (signal) =>
        (await ok(api.GET("/api/v1/tasks/{task_id}", { params: { path: { task_id: id } }, signal }))).task,
    );
    useEffect(() => void (document.title = `Log of ${id} · Windlass`), [id]);
    if (!data) return pending({ error, refresh });
    const { query } = address.value;
    const state = data.taskState?.replace("GENERIC_TASK_", "") ?? data.allocations[0]?.state;
    return h(
      "section",
      { class: "full" },
      h("p", { class: "above" }, h("a", { href: href("tasks") }, "Tasks")),
      h("div", { class: "title" }, h("h1", null, `Task ${id}`), state && State({ state })),
      data.waitingReason && h("p", { class: "note" }, data.waitingReason),
      LogView({
        topic: `log of task ${id}`,
        label: `Log of task ${id}`,
        filter: { text: query.get("search") ?? "", level: query.get("level") ?? "" },
        isOver: data.endTime !== null,
        onFilter: ({ text, level }) => choose({ search: text, level }),
        read:
          (filter) =>
          async ({ signal, ...part }) => {
            const call = api.GET("/api/v1/tasks/{task_id}/logs", {
              params: { path: { task_id: id }, query: logQuery(filter, part) },
              parseAs: "text",
              signal,
            });
            return /** @type {TaskLog[]} */ (await lines(call));
          },
      }),
      Command({ text: shell`det task logs ${id}` }),
    );
  },
);
