// Access tokens, of one user or of all: made, described, revoked.

import { useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { fullTime } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { Act } from "../widgets/act.js";
import { Dialog } from "../widgets/dialog.js";
import { FormButton } from "../widgets/form.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas["TokenInfo"]} Token */

const MOST = 500;

export const TokenTable = component(
  /** @param {{ username?: string, userId?: number, ended?: boolean }} props no name: of all that one may see */
  ({ username = "", userId, ended = false }) => {
    const [made, setMade] = useState("");
    const topic = userId ? `user ${userId}` : username ? "me" : "logins";
    const live = useLive(`${topic}: tokens of ${username} ${ended}`, async (signal) => {
      const query = { showInactive: ended, limit: MOST, ...(username ? { username } : {}) };
      return ok(api.GET("/api/v1/tokens", { params: { query }, signal }));
    });
    if (!live.data) return pending(live);
    const { tokenInfo, pagination } = live.data;
    return group(
      pagination.total > MOST && h("p", { class: "note" }, `The first ${MOST} of ${pagination.total}.`),
      ShortTable({
        label: "Access tokens",
        rows: tokenInfo,
        rowKey: (one) => one.id,
        columns: [
          { title: "Token", cell: (one) => one.id },
          { title: "User", cell: (one) => one.username },
          { title: "Description", cell: (one) => one.description },
          { title: "Made", cell: (one) => moment(one.createdAt) },
          { title: "Expires", cell: (one) => moment(one.expiry) },
          { title: "State", cell: stateOf },
          { title: "", cell: (one) => !one.revoked && Actions({ token: one, done: live.refresh }) },
        ],
        empty: "No access tokens. One lets a program log in as a user, until it expires or is revoked.",
      }),
      FormButton({
        verb: "New access token",
        title: "New access token",
        fields: [
          { name: "description", label: "Description", hint: "What it is for" },
          { name: "lifespan", label: "Lifespan", hint: "Such as 48h; empty: as the cluster says" },
        ],
        submit: async ({ description, lifespan }) => {
          const { token } = await ok(api.POST("/api/v1/tokens", { body: { description, lifespan, userId } }));
          setMade(token);
        },
        done: live.refresh,
      }),
      made &&
        Dialog({
          title: "The new access token",
          onClose: () => setMade(""),
          children: [
            h("p", null, "It is shown this once: copy it to where it is used."),
            h("p", null, h("code", { class: "secret" }, made)),
          ],
        }),
    );
  },
);

/** @param {Token} one */
function stateOf({ revoked, revokedAt, expiry }) {
  if (revoked) return h("span", { title: fullTime(revokedAt) }, "revoked");
  return new Date(expiry) < new Date() ? "expired" : "valid";
}

const Actions = component(
  /** @param {{ token: Token, done: () => void }} props */
  ({ token, done }) => {
    const params = { path: { access_token_id: token.id } };
    return group(
      FormButton({
        verb: "Describe",
        title: `Access token ${token.id}`,
        fields: [{ name: "description", label: "Description", value: token.description }],
        submit: ({ description }) =>
          ok(api.PATCH("/api/v1/tokens/{access_token_id}", { params, body: { description } })),
        done,
      }),
      Act({
        verb: "Revoke",
        of: `token ${token.id}`,
        act: () => ok(api.PATCH("/api/v1/tokens/{access_token_id}", { params, body: { setRevoked: true } })),
        done,
        question: {
          title: `Revoke access token ${token.id} of ${token.username}?`,
          text: "Programs that use it are refused from now on. This cannot be undone.",
        },
      }),
    );
  },
);
