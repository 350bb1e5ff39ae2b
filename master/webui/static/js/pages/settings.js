// One's own settings: name, password, theme, sessions, access tokens.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { me, say, theme } from "../store.js";
import { Command } from "../widgets/command.js";
import { Form } from "../widgets/form.js";
import { Heading } from "../widgets/page.js";
import { SessionTable } from "./session_table.js";
import { TokenTable } from "./token_table.js";

const THEMES = [
  ["", "as the system has it"],
  ["light", "light"],
  ["dark", "dark"],
];

export default component(() => {
  const who = me.value;
  if (!who) return h("p", { class: "note", role: "status" }, "Loading…");
  const params = { path: { user_id: who.id } };
  return h(
    "section",
    null,
    Heading({ title: `Settings of ${who.username}` }),
    h(
      "label",
      null,
      "Theme ",
      h(
        "select",
        { value: theme.value, onChange: (event) => void (theme.value = event.currentTarget.value) },
        THEMES.map(([value = "", text = ""]) => h("option", { key: value, value }, text)),
      ),
    ),
    h("h2", null, "Display name"),
    Form({
      verb: "Change",
      fields: [{ name: "displayName", label: "Display name", value: who.displayName }],
      submit: async ({ displayName }) => {
        const { user } = await ok(api.PATCH("/api/v1/users/{user_id}", { params, body: { displayName } }));
        me.value = user;
        say("Changed.");
      },
    }),
    h("h2", null, "Password"),
    Form({
      verb: "Change password",
      username: who.username,
      note: h("p", { class: "note" }, "Your other sessions end."),
      fields: [
        { name: "password", label: "New password", kind: "password", required: true },
        { name: "again", label: "The same again", kind: "password", required: true },
      ],
      submit: async ({ password = "", again }) => {
        if (password !== again) throw new Error("again: the two passwords differ.");
        await ok(api.PATCH("/api/v1/users/{user_id}", { params, body: { password } }));
        say("Your password is changed.");
      },
    }),
    h("h2", null, "Sessions"),
    SessionTable({ user: who.id }),
    h("h2", null, "Access tokens"),
    TokenTable({ username: who.username }),
    Command({ text: "det user change-password" }),
    Command({ text: "det token list" }),
  );
});
