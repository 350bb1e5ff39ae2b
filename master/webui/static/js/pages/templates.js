// All templates that one may see.

import { component, h } from "../html.js";
import { address, choose } from "../router.js";
import { Command } from "../widgets/command.js";
import { Heading, Search } from "../widgets/page.js";
import { AdminNav } from "./admin/nav.js";
import { TemplateTable } from "./template_table.js";

export default component(() => {
  const name = address.value.query.get("name") ?? "";
  return h(
    "section",
    null,
    AdminNav({ current: "templates" }),
    Heading({
      title: "Templates",
      children: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        Search({ label: "Name contains", value: name, onChange: (value) => choose({ name: value }) }),
      ),
    }),
    TemplateTable({ workspace: 0, name }),
    Command({ text: "det template list" }),
  );
});
