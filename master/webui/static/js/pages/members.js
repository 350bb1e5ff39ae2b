// Who holds a role in just this workspace, as a user or by a group.

import { api, ok } from "../api.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { href } from "../router.js";
import { Act } from "../widgets/act.js";
import { FormButton } from "../widgets/form.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";
import { assignment } from "./roles_api.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {{ kind: "user" | "group", id: number, name: string, role: Schemas["Role"] }} Member */

export const Members = component(
  /** @param {{ workspace: Schemas["Workspace"] }} props */
  ({ workspace: { id } }) => {
    const may = useRights()("ASSIGN_ROLES", { workspace: id });
    const live = useLive(`workspaces: members of ${id}`, async (signal) =>
      ok(api.GET("/api/v1/roles/workspace/{workspace_id}", { params: { path: { workspace_id: id } }, signal })),
    );
    const choices = useLive(
      `users: who could be a member of ${id} ${may}`,
      async (signal) => {
        if (!may) return { users: [], groups: [], roles: [] };
        const [{ users }, { groups }, { roles }] = await Promise.all([
          ok(api.GET("/api/v1/users", { params: { query: { active: true } }, signal })),
          ok(api.POST("/api/v1/groups/search", { body: { limit: 500 }, signal })),
          ok(api.POST("/api/v1/roles/search/by-assignability", { body: { workspaceId: id, limit: 500 }, signal })),
        ]);
        return { users, groups, roles };
      },
      { everyMs: 60_000 },
    );
    if (!live.data) return pending(live);
    const rows = members(live.data);
    const { users = [], groups = [], roles = [] } = choices.data ?? {};
    return group(
      may
        ? FormButton({
            verb: "Add a member",
            title: "Add a member",
            fields: [
              {
                name: "who",
                label: "User or group",
                required: true,
                options: [
                  ...users.map((one) => ({ value: `user ${one.id}`, text: one.username })),
                  ...groups.map(({ group: one }) => ({ value: `group ${one.groupId}`, text: `group ${one.name}` })),
                ],
              },
              {
                name: "role",
                label: "Role",
                required: true,
                options: roles.map((one) => ({ value: String(one.roleId), text: one.name })),
              },
            ],
            submit: ({ who = "", role }) => {
              const [kind, whose] = who.split(" ");
              const body = assignment(kind === "group" ? "group" : "user", Number(whose), Number(role), id);
              return ok(api.POST("/api/v1/roles/add-assignments", { body }));
            },
            done: live.refresh,
          })
        : h(
            "p",
            { class: "note" },
            "You may not assign roles here: the permission ASSIGN_ROLES in this workspace lacks.",
          ),
      ShortTable({
        label: "Members",
        rows,
        rowKey: (one) => `${one.kind} ${one.id} ${one.role.roleId}`,
        columns: [
          {
            title: "Member",
            cell: (one) =>
              h(
                "a",
                { href: href(`admin/${one.kind}s/${one.id}`) },
                one.kind === "group" ? `group ${one.name}` : one.name,
              ),
          },
          {
            title: "Role",
            cell: (one) => h("span", { title: one.role.permissions.map(({ name }) => name).join(", ") }, one.role.name),
          },
          {
            title: "",
            cell: (one) =>
              may &&
              Act({
                verb: "Remove",
                of: `${one.name} as ${one.role.name}`,
                act: () =>
                  ok(
                    api.POST("/api/v1/roles/remove-assignments", {
                      body: assignment(one.kind, one.id, one.role.roleId, id),
                    }),
                  ),
                done: live.refresh,
                question: {
                  title: `Remove ${one.name} as ${one.role.name}?`,
                  text: "What they may do by another role, or by one of the whole cluster, stays.",
                },
              }),
          },
        ],
        empty: "Nobody holds a role in just this workspace. Roles of the whole cluster count here too.",
      }),
    );
  },
);

/** @param {Schemas["WorkspaceMembersReply"]} found @returns {Member[]} */
function members({ usersAssignedDirectly, groups, assignments }) {
  const users = new Map(usersAssignedDirectly.map((one) => [one.id, one.username]));
  const named = new Map(groups.map((one) => [one.groupId, one.name]));
  return assignments.flatMap(({ role, userRoleAssignments, groupRoleAssignments }) => [
    ...userRoleAssignments.map(({ userId: id }) => ({
      kind: /** @type {const} */ ("user"),
      id,
      name: users.get(id) ?? `user ${id}`,
      role,
    })),
    ...groupRoleAssignments.map(({ groupId: id }) => ({
      kind: /** @type {const} */ ("group"),
      id,
      name: named.get(id) ?? String(id),
      role,
    })),
  ]);
}
