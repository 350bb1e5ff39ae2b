// The master's configuration, as it runs: read only, without secrets.

import { api, ok } from "../../api.js";
import { component, h } from "../../html.js";
import { useLive } from "../../live.js";
import { Command } from "../../widgets/command.js";
import { text } from "../../widgets/json.js";
import { Heading, pending } from "../../widgets/page.js";
import { AdminNav } from "./nav.js";

export default component(() => {
  const live = useLive("master: configuration", async (signal) => ok(api.GET("/api/v1/master/config", { signal })), {
    everyMs: 60_000,
  });
  return h(
    "section",
    null,
    AdminNav({ current: "admin/settings" }),
    Heading({ title: "Configuration" }),
    h("p", { class: "note" }, "As the master runs, with defaults; secrets are masked. It is changed in master.yaml."),
    live.data
      ? Object.entries(live.data.config).map(([part, config]) =>
          h(
            "details",
            { key: part, open: part === "security" },
            h("summary", null, part),
            h("pre", { tabIndex: 0, "aria-label": part }, text(config)),
          ),
        )
      : pending(live),
    Command({ text: "det master config show" }),
  );
});
