// What administrators tell everybody: `det master cluster-message set`.

import { api, ok } from "../api.js";
import { plain } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";

const EVERY_MS = 60_000;

export const ClusterMessage = component(() => {
  const { data } = useLive(
    "master: cluster message",
    async (signal) => (await ok(api.GET("/api/v1/master/cluster_message", { signal }))).clusterMessage,
    { everyMs: EVERY_MS },
  );
  if (!data || Date.parse(data.startTime) > Date.now()) return null;
  if (data.endTime && Date.parse(data.endTime) <= Date.now()) return null;
  return h("p", { class: "banner told", role: "status" }, plain(data.message));
});
