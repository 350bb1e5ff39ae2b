// The pools that a workspace may use, and which of them it uses unless told otherwise.

import { api, ok } from "../api.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { FormButton } from "../widgets/form.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas} Schemas */

export const WorkspacePools = component(
  /** @param {{ workspace: Schemas["Workspace"], done: () => void }} props */
  ({ workspace, done }) => {
    const { id, userId, immutable, defaultComputePool, defaultAuxPool } = workspace;
    const may = useRights();
    const live = useLive(`workspaces + cluster: pools of ${id}`, async (signal) => {
      const params = { path: { workspace_id: id } };
      const found = await ok(api.GET("/api/v1/workspaces/{workspace_id}/available-resource-pools", { params, signal }));
      return found.resourcePools;
    });
    const pools = live.data;
    if (!pools) return pending(live);
    const options = [{ value: "", text: "the cluster's default" }, ...pools.map((one) => ({ value: one, text: one }))];
    return group(
      ShortTable({
        label: "Pools",
        rows: pools,
        rowKey: (one) => one,
        columns: [
          { title: "Pool", cell: (one) => one },
          {
            title: "Used for",
            hint: "Where no pool is asked for",
            cell: (one) =>
              [
                one === defaultComputePool && "experiments and tasks with slots",
                one === defaultAuxPool && "tasks without slots",
              ]
                .filter(Boolean)
                .join(", "),
          },
        ],
        empty: "This workspace may use no pool: an administrator binds one with det resource-pool bindings add.",
      }),
      h("p", { class: "note" }, "Pools that are bound to no workspace are open to all of them."),
      !immutable &&
        may("SET_WORKSPACE_DEFAULT_RESOURCE_POOL", { workspace: id, owner: userId }) &&
        FormButton({
          verb: "Set defaults",
          title: "Default pools",
          fields: [
            { name: "defaultComputePool", label: "For work with slots", options, value: defaultComputePool },
            { name: "defaultAuxPool", label: "For work without slots", options, value: defaultAuxPool },
          ],
          submit: (values) => ok(api.PATCH("/api/v1/workspaces/{id}", { params: { path: { id } }, body: values })),
          done,
        }),
    );
  },
);
