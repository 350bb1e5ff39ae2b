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
    const live = useLive(`groups: roles of ${kind} ${id}`, async (signal) => {
      const [rows, { roles }, { workspaces }] = await Promise.all([
        kind === "user" ? grantsOfUser(id, signal) : grantsOfGroup(id, signal),
        ok(api.POST("/api/v1/roles/search", { body: { limit: 500 }, signal })),
        ok(api.GET("/api/v1/workspaces", { signal })),
      ]);
      return { rows, roles, workspaces };
    });
    if (!live.data) return pending(live);
    const { rows, roles, workspaces } = live.data;
    const placeOf = (/** @type {number | null} */ workspace) =>
      workspace === null
        ? "the whole cluster"
        : (workspaces.find((one) => one.id === workspace)?.name ?? `workspace ${workspace}`);
    return group(
      ShortTable({
        label: "Roles",
        rows,
        rowKey: ({ role, workspace, byGroup }) => `${role.roleId} ${workspace} ${byGroup}`,
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
            title: "Held",
            cell: ({ byGroup }) =>
              byGroup === null ? "directly" : h("a", { href: href(`admin/groups/${byGroup}`) }, `by group ${byGroup}`),
          },
          {
            title: "",
            cell: ({ role, workspace, byGroup }) =>
              may &&
              byGroup === null &&
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

/** @typedef {{ role: Schemas["Role"], workspace: number | null, byGroup: number | null }} Grant null: directly */

/** @param {number} id @param {AbortSignal} signal @returns {Promise<Grant[]>} */
async function grantsOfUser(id, signal) {
  const params = { path: { user_id: id } };
  const { roles } = await ok(api.GET("/api/v1/roles/search/by-user/{user_id}", { params, signal }));
  return roles.flatMap(({ role, userRoleAssignments, groupRoleAssignments }) => [
    ...userRoleAssignments.map((one) => ({ role, workspace: one.roleAssignment.scopeWorkspaceId, byGroup: null })),
    ...groupRoleAssignments.map((one) => ({
      role,
      workspace: one.roleAssignment.scopeWorkspaceId,
      byGroup: one.groupId,
    })),
  ]);
}

/** @param {number} id @param {AbortSignal} signal @returns {Promise<Grant[]>} */
async function grantsOfGroup(id, signal) {
  const params = { path: { group_id: id } };
  const { roles, assignments } = await ok(api.GET("/api/v1/roles/search/by-group/{group_id}", { params, signal }));
  return roles.flatMap((role, at) => [
    ...(assignments[at]?.scopeCluster ? [{ role, workspace: null, byGroup: null }] : []),
    ...(assignments[at]?.scopeWorkspaceIds ?? []).map((workspace) => ({ role, workspace, byGroup: null })),
  ]);
}
