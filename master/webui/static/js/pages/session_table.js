// The sessions of a user: from where, used when, ended at once.

import { api, ok } from "../api.js";
import { component, group } from "../html.js";
import { useLive } from "../live.js";
import { Act } from "../widgets/act.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";

export const SessionTable = component(
  /** @param {{ user: number }} props */
  ({ user }) => {
    const params = { path: { user_id: user } };
    const live = useLive(`user ${user}: sessions`, async (signal) =>
      ok(api.GET("/api/v1/windlass/users/{user_id}/sessions", { params, signal })),
    );
    if (!live.data) return pending(live);
    const { sessions } = live.data;
    return group(
      ShortTable({
        label: "Sessions",
        rows: sessions,
        rowKey: (one) => one.id,
        columns: [
          { title: "Session", cell: (one) => `${one.id}${one.current ? " (this one)" : ""}` },
          { title: "From", cell: (one) => one.address || "unknown" },
          { title: "Began", cell: (one) => moment(one.createdAt) },
          { title: "Last used", hint: "Since the master started", cell: (one) => moment(one.lastUsedAt) },
          { title: "Expires", cell: (one) => moment(one.expiresAt) },
          {
            title: "",
            cell: (one) =>
              !one.current &&
              Act({
                verb: "End",
                of: `session ${one.id}`,
                act: () =>
                  ok(
                    api.DELETE("/api/v1/windlass/sessions/{session_id}", { params: { path: { session_id: one.id } } }),
                  ),
                done: live.refresh,
              }),
          },
        ],
        empty: "No open sessions.",
      }),
      sessions.some((one) => !one.current) &&
        Act({
          verb: "End all others",
          act: () => ok(api.DELETE("/api/v1/windlass/users/{user_id}/sessions", { params })),
          done: live.refresh,
          question: { title: "End all these sessions?", text: "Whoever is logged in by one must log in again." },
        }),
    );
  },
);
