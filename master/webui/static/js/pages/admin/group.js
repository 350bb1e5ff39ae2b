// One group: its members and its roles.

import { api, ok } from "../../api.js";
import { shell } from "../../format.js";
import { component, h } from "../../html.js";
import { useLive } from "../../live.js";
import { useRights } from "../../rights.js";
import { go, href } from "../../router.js";
import { Act } from "../../widgets/act.js";
import { Command } from "../../widgets/command.js";
import { FormButton } from "../../widgets/form.js";
import { Heading, pending } from "../../widgets/page.js";
import { ShortTable } from "../../widgets/short_table.js";
import { HeldRoles } from "./held_roles.js";
import { AdminNav } from "./nav.js";

export default component(
  /** @param {import("../../routes.js").PageProps} props */
  ({ params }) => {
    const id = Number(params.group);
    const may = useRights()("UPDATE_GROUP");
    const path = { params: { path: { group_id: id } } };
    const live = useLive(`groups + users: group ${id}`, async (signal) => {
      const [{ group }, { users }] = await Promise.all([
        ok(api.GET("/api/v1/groups/{group_id}", { ...path, signal })),
        ok(api.GET("/api/v1/users", { params: { query: { active: true } }, signal })),
      ]);
      return { group, users };
    });
    if (!live.data) return pending(live);
    const { group, users } = live.data;
    const members = new Set(group.users.map((one) => one.id));
    const others = users.filter((one) => !members.has(one.id));
    const put = (/** @type {import("../../store.js").Schemas["UpdateGroup"]} */ body) =>
      ok(api.PUT("/api/v1/groups/{group_id}", { ...path, body }));
    return h(
      "section",
      null,
      AdminNav({ current: "admin/groups" }),
      Heading({
        title: group.name,
        children:
          may &&
          h(
            "div",
            { class: "bar", role: "toolbar", "aria-label": "Of the group" },
            FormButton({
              verb: "Rename",
              title: `Rename ${group.name}`,
              fields: [{ name: "name", label: "Name", value: group.name, required: true }],
              submit: ({ name }) => put({ name }),
              done: live.refresh,
            }),
            Act({
              verb: "Delete",
              act: async () => {
                await ok(api.DELETE("/api/v1/groups/{group_id}", path));
                go(href("admin/groups"));
              },
              question: {
                title: `Delete group ${group.name}?`,
                text: `Its ${group.users.length} members lose the roles that they hold by it.`,
              },
            }),
          ),
      }),
      h("h2", null, "Members"),
      ShortTable({
        label: "Members",
        rows: group.users,
        rowKey: (one) => one.id,
        columns: [
          { title: "User", cell: (one) => h("a", { href: href(`admin/users/${one.id}`) }, one.username) },
          { title: "Display name", cell: (one) => one.displayName },
          { title: "Active", cell: (one) => (one.active ? "yes" : "no") },
          {
            title: "",
            cell: (one) =>
              may &&
              Act({ verb: "Remove", of: one.username, act: () => put({ removeUsers: [one.id] }), done: live.refresh }),
          },
        ],
        empty: "No members yet.",
      }),
      may &&
        others.length > 0 &&
        FormButton({
          verb: "Add a member",
          title: `Add a member to ${group.name}`,
          fields: [
            {
              name: "addUsers",
              label: "User",
              options: others.map((one) => ({ value: String(one.id), text: one.username })),
            },
          ],
          submit: ({ addUsers }) => put({ addUsers: [Number(addUsers)] }),
          done: live.refresh,
        }),
      h("h2", null, "Roles"),
      HeldRoles({ kind: "group", id, name: group.name }),
      Command({ text: shell`det user-group describe ${group.name}` }),
    );
  },
);
