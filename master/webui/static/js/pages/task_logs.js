// The log of any task: `tasks/ID/logs`, and the addresses that the published client prints for its kinds.

import { useEffect } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { pending } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { TaskLog } from "./logs.js";

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
    const state = data.taskState?.replace("GENERIC_TASK_", "") ?? data.allocations[0]?.state;
    return h(
      "section",
      { class: "full" },
      h("p", { class: "above" }, h("a", { href: href("tasks") }, "Tasks")),
      h("div", { class: "title" }, h("h1", null, `Task ${id}`), state && State({ state })),
      data.waitingReason && h("p", { class: "note" }, data.waitingReason),
      TaskLog({ key: id, task: id, isOver: data.endTime !== null }),
    );
  },
);
