// How a machine becomes an agent: the line to run there, with a token that is made for it.

import { useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { fullTime, shell, time } from "../format.js";
import { component, group, h } from "../html.js";
import { ROOT } from "../router.js";
import { Command } from "../widgets/command.js";
import { Dialog } from "../widgets/dialog.js";
import { Form } from "../widgets/form.js";

/** @typedef {import("../store.js").Schemas["NewJoinTokenReply"]} Made */

export const Join = component(
  /** @param {{ pools: string[], may: boolean, onClose: () => void }} props */
  ({ pools, may, onClose }) => {
    const [made, setMade] = useState(/** @type {Made | null} */ (null));
    return Dialog({
      title: "Add a machine",
      onClose,
      children: group(
        h("p", null, "A machine joins a pool with a token. It needs Windlass, and a way to the master."),
        made
          ? Line({ made })
          : may
            ? Form({
                verb: "Make a token",
                fields: [
                  {
                    name: "pool",
                    label: "Pool",
                    options: pools.map((one) => ({ value: one, text: one })),
                    hint: "The token is for one machine, within the hour.",
                  },
                ],
                submit: async ({ pool = "" }) =>
                  setMade(await ok(api.POST("/api/v1/windlass/join-tokens", { body: { pool } }))),
              })
            : h("p", { class: "note" }, "Tokens are made by who may update agents (update_agents): administrators."),
        Command({ text: "det master join-token create POOL" }),
        h("p", null, h("a", { href: `${ROOT}docs/agents-on-prem` }, "Agents on your own machines")),
      ),
    });
  },
);

const Line = component(
  /** @param {{ made: Made }} props */
  ({ made: { token, masterUrl, certFingerprint, joinToken } }) =>
    h(
      "div",
      null,
      h("p", null, "Run this on the machine. The token is shown this once:"),
      Command({
        text:
          shell`windlass agent join ${masterUrl} --token ${token}` +
          (certFingerprint ? shell` --cert-fingerprint ${certFingerprint}` : ""),
      }),
      joinToken.expiresAt &&
        h("p", { class: "note", title: fullTime(joinToken.expiresAt) }, `It expires ${time(joinToken.expiresAt)}.`),
    ),
);
