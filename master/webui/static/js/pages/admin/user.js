// One user: what they are, their groups, roles, sessions and access tokens.

import { api, ok } from "../../api.js";
import { shell } from "../../format.js";
import { component, h } from "../../html.js";
import { useLive } from "../../live.js";
import { useRights } from "../../rights.js";
import { href } from "../../router.js";
import { me } from "../../store.js";
import { Act } from "../../widgets/act.js";
import { Command } from "../../widgets/command.js";
import { Facts } from "../../widgets/facts.js";
import { FormButton } from "../../widgets/form.js";
import { moment } from "../../widgets/moment.js";
import { Heading, pending } from "../../widgets/page.js";
import { SessionTable } from "../session_table.js";
import { TokenTable } from "../token_table.js";
import { HeldRoles } from "./held_roles.js";
import { AdminNav } from "./nav.js";

/** @typedef {import("../../store.js").Schemas["User"]} User */

export default component(
  /** @param {import("../../routes.js").PageProps} props */
  ({ params }) => {
    const id = Number(params.user);
    const may = useRights();
    const live = useLive(`users + groups: ${id}`, async (signal) => {
      const [{ user }, { groups }] = await Promise.all([
        ok(api.GET("/api/v1/users/{user_id}", { params: { path: { user_id: id } }, signal })),
        ok(api.POST("/api/v1/groups/search", { body: { userId: id, limit: 500 }, signal })),
      ]);
      return { user, groups };
    });
    if (!live.data) return pending(live);
    const { user, groups } = live.data;
    const link = user.agentUserGroup;
    const isSeen = may("ADMINISTRATE_USER", { owner: id }) || id === me.value?.id;
    return h(
      "section",
      null,
      AdminNav({ current: "admin/users" }),
      Heading({
        title: user.username,
        children: may("ADMINISTRATE_USER") && Actions({ user, done: live.refresh }),
      }),
      Facts({
        facts: [
          ["Display name", user.displayName],
          ["State", user.active ? "active" : "not active: may not log in"],
          ["Administrator", user.admin ? "yes" : "no"],
          ["Login", user.remote ? "by single sign-on alone" : ""],
          ["Tasks run as", link ? `${link.agentUser} (${link.agentUid}), ${link.agentGroup} (${link.agentGid})` : ""],
          ["Last login", moment(user.lastAuthAt)],
          ["Changed", moment(user.modifiedAt)],
          [
            "Groups",
            groups.map(({ group }, at) => [
              at ? ", " : "",
              h("a", { key: group.groupId, href: href(`admin/groups/${group.groupId}`) }, group.name),
            ]),
          ],
        ],
      }),
      h("h2", null, "Roles"),
      HeldRoles({ kind: "user", id, name: user.username }),
      isSeen && [
        h("h2", { key: "sessions" }, "Sessions"),
        SessionTable({ key: "open", user: id }),
        h("h2", { key: "tokens" }, "Access tokens"),
        TokenTable({ key: "issued", username: user.username, userId: id }),
      ],
      Command({ text: shell`det rbac list-users-roles ${user.username}` }),
    );
  },
);

const Actions = component(
  /** @param {{ user: User, done: () => void }} props */
  ({ user, done }) => {
    const params = { path: { user_id: user.id } };
    const link = user.agentUserGroup;
    const patch = (/** @type {import("../../store.js").Schemas["PatchUser"]} */ body) =>
      ok(api.PATCH("/api/v1/users/{user_id}", { params, body }));
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the user" },
      FormButton({
        verb: "Edit",
        title: `Edit ${user.username}`,
        fields: [
          { name: "username", label: "User name", value: user.username, required: true },
          { name: "displayName", label: "Display name", value: user.displayName },
          { name: "admin", label: "Administrator", kind: "check", value: user.admin ? "1" : "" },
          { name: "remote", label: "Logs in by single sign-on alone", kind: "check", value: user.remote ? "1" : "" },
        ],
        submit: ({ username, displayName, admin, remote }) =>
          patch({
            ...(username === user.username ? {} : { username }),
            ...(displayName === user.displayName ? {} : { displayName }),
            ...((admin === "1") === user.admin ? {} : { admin: admin === "1" }),
            ...((remote === "1") === user.remote ? {} : { remote: remote === "1" }),
          }),
        done,
      }),
      FormButton({
        verb: "Link to an account of agents",
        title: `As whom tasks of ${user.username} run`,
        note: h("p", { class: "note" }, "All four, or none: then they run as the cluster says."),
        fields: [
          { name: "agentUser", label: "User", value: link?.agentUser ?? "" },
          { name: "agentUid", label: "User ID", kind: "number", value: String(link?.agentUid ?? "") },
          { name: "agentGroup", label: "Group", value: link?.agentGroup ?? "" },
          { name: "agentGid", label: "Group ID", kind: "number", value: String(link?.agentGid ?? "") },
        ],
        submit: ({ agentUser, agentUid, agentGroup, agentGid }) =>
          patch({
            agentUserGroup: {
              ...(agentUser ? { agentUser } : {}),
              ...(agentGroup ? { agentGroup } : {}),
              ...(agentUid ? { agentUid: Number(agentUid) } : {}),
              ...(agentGid ? { agentGid: Number(agentGid) } : {}),
            },
          }),
        done,
      }),
      FormButton({
        verb: "Set password",
        title: `New password of ${user.username}`,
        username: user.username,
        note: h("p", { class: "note" }, "Their sessions end."),
        fields: [{ name: "password", label: "Password", kind: "password", required: true }],
        submit: ({ password = "" }) => patch({ password }),
        done,
      }),
      Act({
        verb: user.active ? "Deactivate" : "Activate",
        act: () => patch({ active: !user.active }),
        done,
        ...(user.active
          ? {
              question: {
                title: `Deactivate ${user.username}?`,
                text: "Their sessions end, and they may not log in until activated again. What they own stays.",
              },
            }
          : {}),
      }),
    );
  },
);
