// Which workspaces a pool is kept for.

import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { href } from "../router.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { FormButton } from "../widgets/form.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas["ResourcePool"]} Pool */

const BINDINGS = "/api/v1/resource-pools/{resource_pool_name}/workspace-bindings";

export const PoolBindings = component(
  /** @param {{ pool: Pool }} props */
  ({ pool }) => {
    const may = useRights()("MODIFY_RP_WORKSPACE_BINDINGS");
    const path = { resource_pool_name: pool.name };
    const live = useLive(`workspaces + cluster: bindings of ${pool.name}`, async (signal) => {
      const [bound, { workspaces }] = await Promise.all([
        ok(api.GET(BINDINGS, { params: { path }, signal })),
        ok(api.GET("/api/v1/workspaces", { signal })),
      ]);
      const ids = new Set(bound.workspaceIds);
      return { bound: workspaces.filter((one) => ids.has(one.id)), free: workspaces.filter((one) => !ids.has(one.id)) };
    });
    if (!live.data) return pending(live);
    const { bound, free } = live.data;
    const change = (/** @type {string} */ name) => ({
      params: { path },
      body: { resourcePoolName: pool.name, workspaceNames: [name] },
    });
    return group(
      ShortTable({
        label: "Workspaces",
        rows: bound,
        rowKey: (one) => one.id,
        columns: [
          { title: "Workspace", cell: (one) => h("a", { href: href(`workspaces/${one.id}`) }, one.name) },
          ...(may
            ? [
                {
                  title: "Unbind",
                  cell: (/** @type {typeof bound[number]} */ one) =>
                    Act({
                      verb: "Unbind",
                      of: one.name,
                      question: {
                        title: `Unbind ${one.name}?`,
                        text:
                          bound.length > 1
                            ? `Work of workspace ${one.name} may not be submitted to pool ${pool.name} any more.`
                            : `Pool ${pool.name} is open to all workspaces then.`,
                      },
                      act: () => ok(api.DELETE(BINDINGS, change(one.name))),
                      done: live.refresh,
                    }),
                },
              ]
            : []),
        ],
        empty: "It is bound to no workspace that you may see: one without bindings is open to all.",
      }),
      may &&
        free.length > 0 &&
        FormButton({
          verb: "Bind a workspace",
          title: `Keep pool ${pool.name} for a workspace`,
          fields: [
            {
              name: "workspaceNames",
              label: "Workspace",
              options: free.map((one) => ({ value: one.name, text: one.name })),
            },
          ],
          submit: ({ workspaceNames }) => ok(api.POST(BINDINGS, change(workspaceNames ?? ""))),
          done: live.refresh,
        }),
      Command({ text: shell`det resource-pool bindings list-workspaces ${pool.name}` }),
    );
  },
);
