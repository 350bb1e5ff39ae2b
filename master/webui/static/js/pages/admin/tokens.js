// Access tokens of all users that one may see.

import { component, h } from "../../html.js";
import { address, choose } from "../../router.js";
import { Command } from "../../widgets/command.js";
import { Heading } from "../../widgets/page.js";
import { TokenTable } from "../token_table.js";
import { AdminNav } from "./nav.js";

export default component(() => {
  const all = address.value.query.get("all") === "1";
  return h(
    "section",
    null,
    AdminNav({ current: "admin/tokens" }),
    Heading({
      title: "Access tokens",
      children: h(
        "label",
        null,
        h("input", {
          type: "checkbox",
          checked: all,
          onChange: (event) => choose({ all: event.currentTarget.checked ? "1" : "" }),
        }),
        " revoked and expired too",
      ),
    }),
    TokenTable({ ended: all }),
    Command({ text: all ? "det token list --show-inactive" : "det token list" }),
  );
});
