// The roles that a user or a group holds, in the cluster and in workspaces; given and taken.

import { api, ok } from "../../api.js";
import { component, group, h } from "../../html.js";
import { useLive } from "../../live.js";
import { useRights } from "../../rights.js";
import { href } from "../../router.js";
import { Act } from "../../widgets/act.js";
import { FormButton } from "../../widgets/form.js";
import { pending } from "../../widgets/page.js";
import { ShortTable } from "../../widgets/short_table.js";
import { assignment } from "../roles_api.js";

/** @typedef {import("../../store.js").Schemas} Schemas */

export const HeldRoles = component(
  /** @param {{ kind: "user" | "group", id: number, name: string }} props */
  ({ kind, id, name }) => {
    const may = useRights()("ASSIGN_ROLES");
    const live = useLive(`roles of ${kind} ${id}`, async (signal) => {
      const [held, { roles }, { workspaces }] = await Promise.all([
        kind === "user"
          ? ok(api.GET("/api/v1/roles/search/by-user/{user_id}", { params: { path: { user_id: id } }, signal }))
          : ok(api.GET("/api/v1/roles/search/by-group/{group_id}", { params: { path: { group_id: id } }, signal })),
        ok(api.POST("/api/v1/roles/search", { body: { limit: 500 }, signal })),
        ok(api.GET("/api/v1/workspaces", { signal })),
      ]);
      return { held, roles, workspaces };
    });
    if (!live.data) return pending(live);
    const { held, roles, workspaces } = live.data;
    const placeOf = (/** @type {number | null} */ workspace) =>
      workspace === null
        ? "the whole cluster"
        : (workspaces.find((one) => one.id === workspace)?.name ?? `workspace ${workspace}`);
    return group(
      ShortTable({
        label: "Roles",
        rows: grants(held),
        rowKey: ({ role, workspace }) => `${role.roleId} ${workspace}`,
        columns: [
          {
            title: "Role",
            cell: ({ role }) => h("span", { title: role.permissions.map((one) => one.name).join(", ") }, role.name),
          },
          {
            title: "Where",
            cell: ({ workspace }) =>
              workspace === null
                ? placeOf(null)
                : h("a", { href: href(`workspaces/${workspace}/members`) }, placeOf(workspace)),
          },
          {
            title: "",
            cell: ({ role, workspace }) =>
              may &&
              Act({
                verb: "Take",
                of: `${role.name} in ${placeOf(workspace)}`,
                act: () =>
                  ok(
                    api.POST("/api/v1/roles/remove-assignments", {
                      body: assignment(kind, id, role.roleId, workspace),
                    }),
                  ),
                done: live.refresh,
                question: { title: `Take ${role.name} from ${name}?`, text: `In ${placeOf(workspace)}.` },
              }),
          },
        ],
        empty: kind === "user" ? "None, neither direct nor by a group." : "None.",
      }),
      may &&
        FormButton({
          verb: "Give a role",
          title: `Give ${name} a role`,
          fields: [
            {
              name: "role",
              label: "Role",
              options: roles.map((one) => ({ value: String(one.roleId), text: one.name })),
            },
            {
              name: "scopeWorkspaceId",
              label: "In",
              options: [
                { value: "", text: "the whole cluster" },
                ...workspaces.map((one) => ({ value: String(one.id), text: one.name })),
              ],
            },
          ],
          submit: ({ role, scopeWorkspaceId }) => {
            const workspace = scopeWorkspaceId ? Number(scopeWorkspaceId) : null;
            return ok(
              api.POST("/api/v1/roles/add-assignments", { body: assignment(kind, id, Number(role), workspace) }),
            );
          },
          done: live.refresh,
        }),
    );
  },
);

/** @param {Schemas["HeldRolesReply"]} held */
function grants({ roles, assignments }) {
  return roles.flatMap((role, at) => {
    const where = assignments[at];
    return [
      ...(where?.scopeCluster ? [{ role, workspace: null }] : []),
      ...(where?.scopeWorkspaceIds ?? []).map((workspace) => ({ role, workspace })),
    ];
  });
}
