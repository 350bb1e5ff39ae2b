// Groups of users.

import { api, ok } from "../../api.js";
import { component, h } from "../../html.js";
import { useRights } from "../../rights.js";
import { go, href } from "../../router.js";
import { Command } from "../../widgets/command.js";
import { FormButton } from "../../widgets/form.js";
import { Heading } from "../../widgets/page.js";
import { Table } from "../../widgets/table.js";
import { useWindows } from "../../widgets/windows.js";
import { AdminNav } from "./nav.js";

/** @type {import("../../widgets/table.js").Column<import("../../store.js").Schemas["GroupSearchResult"]>[]} */
const COLUMNS = [
  { id: "name", title: "Group", width: "minmax(160px, 2fr)", cell: ({ group }) => group.name },
  { id: "members", title: "Members", isNumber: true, cell: (one) => one.numMembers },
  { id: "id", title: "ID", isNumber: true, isMinor: true, cell: ({ group }) => group.groupId },
];

export default component(() => {
  const may = useRights();
  const source = useWindows("groups", async (offset, limit, signal) => {
    const found = await ok(api.POST("/api/v1/groups/search", { body: { offset, limit }, signal }));
    return { rows: found.groups, total: found.pagination.total };
  });
  return h(
    "section",
    { class: "full" },
    AdminNav({ current: "admin/groups" }),
    Heading({
      title: "Groups",
      children:
        may("UPDATE_GROUP") &&
        FormButton({
          verb: "New group",
          title: "New group",
          isMain: true,
          fields: [{ name: "name", label: "Name", required: true }],
          submit: async ({ name = "" }) => {
            const { group } = await ok(api.POST("/api/v1/groups", { body: { name } }));
            go(href(`admin/groups/${group.groupId}`));
          },
        }),
    }),
    Table({
      label: "Groups",
      columns: COLUMNS,
      source,
      rowKey: ({ group }) => group.groupId,
      link: ({ group }) => href(`admin/groups/${group.groupId}`),
      empty: "No groups that you may see. A group holds roles for all its members.",
    }),
    Command({ text: "det user-group list" }),
  );
});
