// What this master is.

import { api, ok } from "../../api.js";
import { component, h } from "../../html.js";
import { useLive } from "../../live.js";
import { Command } from "../../widgets/command.js";
import { Facts } from "../../widgets/facts.js";
import { Heading, pending } from "../../widgets/page.js";
import { AdminNav } from "./nav.js";

export default component(() => {
  const live = useLive("master", async (signal) => ok(api.GET("/api/v1/master", { signal })), { everyMs: 60_000 });
  const master = live.data;
  return h(
    "section",
    null,
    AdminNav({ current: "admin/about" }),
    Heading({ title: "About" }),
    master
      ? Facts({
          facts: [
            ["Windlass", master.windlassVersion],
            ["API", `Determined AI ${master.version}`],
            ["Cluster", master.clusterName],
            ["Cluster ID", h("code", null, master.clusterId)],
            ["Master ID", h("code", null, master.masterId)],
            ["Who may do what", master.rbacEnabled ? "by roles" : "by owners and administrators"],
            ["Message", master.clusterMessage?.message ?? ""],
          ],
        })
      : pending(live),
    h("h2", null, "Libraries of these pages"),
    h("p", null, "Preact, @preact/signals, uPlot and openapi-fetch, each under the MIT licence."),
    Command({ text: "det master info" }),
  );
});
