// Users: those that are active, or all.

import { api, ok } from "../../api.js";
import { component, h } from "../../html.js";
import { useRights } from "../../rights.js";
import { address, choose, go, href } from "../../router.js";
import { Command } from "../../widgets/command.js";
import { FormButton } from "../../widgets/form.js";
import { moment } from "../../widgets/moment.js";
import { Heading, Search } from "../../widgets/page.js";
import { Table } from "../../widgets/table.js";
import { useWindows } from "../../widgets/windows.js";
import { AdminNav } from "./nav.js";

/** @typedef {import("../../store.js").Schemas["User"]} User */
/** @typedef {NonNullable<import("../../openapi.js").operations["users_list_users"]["parameters"]["query"]>} Query */

/** @type {import("../../widgets/table.js").Column<User>[]} */
const COLUMNS = [
  { id: "name", title: "User", sort: "SORT_BY_USER_NAME", cell: (one) => one.username },
  { id: "display", title: "Display name", sort: "SORT_BY_DISPLAY_NAME", cell: (one) => one.displayName },
  { id: "admin", title: "Administrator", sort: "SORT_BY_ADMIN", cell: (one) => (one.admin ? "yes" : "") },
  { id: "active", title: "Active", sort: "SORT_BY_ACTIVE", cell: (one) => (one.active ? "yes" : "no") },
  {
    id: "remote",
    title: "Remote",
    hint: "Logs in by single sign-on alone",
    isMinor: true,
    cell: (one) => (one.remote ? "yes" : ""),
  },
  {
    id: "seen",
    title: "Last login",
    width: "160px",
    sort: "SORT_BY_LAST_AUTH_TIME",
    isMinor: true,
    cell: (one) => moment(one.lastAuthAt),
  },
];

export default component(() => {
  const { query } = address.value;
  const may = useRights();
  const [name, all, by] = [query.get("name") ?? "", query.get("all") === "1", query.get("sort") || "SORT_BY_USER_NAME"];
  const descending = query.get("order") === "down";
  /** @type {Query} */
  const asked = {
    sortBy: /** @type {NonNullable<Query["sortBy"]>} */ (by),
    orderBy: descending ? "ORDER_BY_DESC" : "ORDER_BY_ASC",
    ...(name ? { name } : {}),
    ...(all ? {} : { active: true }),
  };
  const source = useWindows(`users: ${JSON.stringify(asked)}`, async (offset, limit, signal) => {
    const found = await ok(api.GET("/api/v1/users", { params: { query: { ...asked, offset, limit } }, signal }));
    return { rows: found.users, total: found.pagination.total };
  });
  return h(
    "section",
    { class: "full" },
    AdminNav({ current: "admin/users" }),
    Heading({
      title: "Users",
      children: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        Search({ label: "Name contains", value: name, onChange: (value) => choose({ name: value }) }),
        h(
          "label",
          null,
          h("input", {
            type: "checkbox",
            checked: all,
            onChange: (event) => choose({ all: event.currentTarget.checked ? "1" : "" }),
          }),
          " inactive too",
        ),
        may("ADMINISTRATE_USER") && NewUser({}),
      ),
    }),
    Table({
      label: "Users",
      columns: COLUMNS,
      source,
      rowKey: (one) => one.id,
      link: (one) => href(`admin/users/${one.id}`),
      sort: { by, descending },
      onSort: (sort) => choose({ sort: sort.by, order: sort.descending ? "down" : "" }),
      empty: "No user is like that.",
    }),
    Command({ text: all ? "det user list --all" : "det user list" }),
  );
});

const NewUser = component(() =>
  FormButton({
    verb: "New user",
    title: "New user",
    isMain: true,
    fields: [
      { name: "username", label: "User name", required: true },
      { name: "displayName", label: "Display name" },
      { name: "password", label: "Password", kind: "password", hint: "At least 8 characters: A-Z, a-z, 0-9" },
      { name: "admin", label: "Administrator", kind: "check" },
      { name: "remote", label: "Logs in by single sign-on alone", kind: "check" },
    ],
    submit: async ({ username = "", displayName = "", password = "", admin, remote }) => {
      const user = { username, displayName, admin: admin === "1", remote: remote === "1", active: true };
      const made = await ok(api.POST("/api/v1/users", { body: { user, password } }));
      go(href(`admin/users/${made.user.id}`));
    },
  }),
);
