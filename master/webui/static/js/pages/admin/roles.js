// Roles and what each permits; which of them one holds oneself.

import { api, ok } from "../../api.js";
import { count } from "../../format.js";
import { component, h } from "../../html.js";
import { useLive } from "../../live.js";
import { Command } from "../../widgets/command.js";
import { Heading, pending } from "../../widgets/page.js";
import { ShortTable } from "../../widgets/short_table.js";
import { AdminNav } from "./nav.js";

export default component(() => {
  const live = useLive(
    "groups + me: roles",
    async (signal) => {
      const [{ roles }, held, master] = await Promise.all([
        ok(api.POST("/api/v1/roles/search", { body: { limit: 500 }, signal })),
        ok(api.GET("/api/v1/permissions/summary", { signal })),
        ok(api.GET("/api/v1/master", { signal })),
      ]);
      return { roles, held, byRoles: master.rbacEnabled };
    },
    { everyMs: 60_000 },
  );
  return h(
    "section",
    null,
    AdminNav({ current: "admin/roles" }),
    Heading({ title: "Roles" }),
    live.data ? Roles(live.data) : pending(live),
    Command({ text: "det rbac list-roles" }),
  );
});

const Roles = component(
  /**
   * @param {object} props
   * @param {import("../../store.js").Schemas["Role"][]} props.roles
   * @param {import("../../store.js").Schemas["HeldRolesReply"]} props.held
   * @param {boolean} props.byRoles
   */
  ({ roles, held, byRoles }) => {
    const mine = new Map(held.assignments.map((one) => [one.roleId, one]));
    return h(
      "div",
      null,
      h(
        "p",
        { class: "note" },
        byRoles
          ? "Roles decide who may do what. They are given on the pages of users, groups and workspaces."
          : "This cluster goes by owners and administrators: roles decide nothing until security.authz.type is rbac.",
      ),
      ShortTable({
        label: "Roles",
        rows: roles,
        rowKey: (one) => one.roleId,
        columns: [
          { title: "Role", cell: (one) => one.name },
          { title: "Given in", cell: (one) => (one.scopeTypeMask.workspace ? "cluster, workspaces" : "cluster") },
          { title: "You hold it in", cell: (one) => placeOf(mine.get(one.roleId)) },
          {
            title: "Permits",
            cell: (one) =>
              h(
                "details",
                null,
                h("summary", null, count(one.permissions.length, "permission")),
                h(
                  "ul",
                  { class: "items" },
                  one.permissions.map(({ id, name }) => h("li", { key: id }, name)),
                ),
              ),
          },
        ],
        empty: "You hold no role, and may not see the others.",
      }),
    );
  },
);

/** @param {import("../../store.js").Schemas["RoleAssignmentSummary"] | undefined} held */
function placeOf(held) {
  if (!held) return "";
  return held.scopeCluster ? "the whole cluster" : count(held.scopeWorkspaceIds.length, "workspace");
}
