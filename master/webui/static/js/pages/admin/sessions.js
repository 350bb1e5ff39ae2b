// Open sessions of a user.

import { api, ok } from "../../api.js";
import { component, h } from "../../html.js";
import { useLive } from "../../live.js";
import { address, choose } from "../../router.js";
import { me } from "../../store.js";
import { Heading, pending } from "../../widgets/page.js";
import { SessionTable } from "../session_table.js";
import { AdminNav } from "./nav.js";

export default component(() => {
  const live = useLive("users: with sessions", async (signal) => ok(api.GET("/api/v1/users", { signal })), {
    everyMs: 60_000,
  });
  const chosen = Number(address.value.query.get("user") ?? 0) || me.value?.id;
  return h(
    "section",
    null,
    AdminNav({ current: "admin/sessions" }),
    Heading({
      title: "Sessions",
      children: h(
        "label",
        null,
        "User ",
        h(
          "select",
          { value: String(chosen ?? ""), onChange: (event) => choose({ user: event.currentTarget.value }) },
          live.data?.users.map((one) => h("option", { key: one.id, value: String(one.id) }, one.username)),
        ),
      ),
    }),
    live.data && chosen ? SessionTable({ key: chosen, user: chosen }) : pending(live),
  );
});
