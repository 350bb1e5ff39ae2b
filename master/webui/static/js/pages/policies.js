// Config policies of the cluster, which hold in all workspaces.

import { component, h } from "../html.js";
import { Command } from "../widgets/command.js";
import { Heading } from "../widgets/page.js";
import { AdminNav } from "./admin/nav.js";
import { PolicyEditor } from "./policy_editor.js";

export default component(() =>
  h(
    "section",
    null,
    AdminNav({ current: "config-policies" }),
    Heading({ title: "Config policies of the cluster" }),
    PolicyEditor({ workspace: null }),
    Command({ text: "det config-policies describe experiment" }),
  ),
);
