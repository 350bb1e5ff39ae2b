// One webhook: what it is told of, a test, and what became of the calls.

import { api, ok } from "../api.js";
import { shell, time, value } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { go, href } from "../router.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { FormButton } from "../widgets/form.js";
import { moment } from "../widgets/moment.js";
import { Heading, pending } from "../widgets/page.js";
import { Problem } from "../widgets/problem.js";
import { ShortTable } from "../widgets/short_table.js";
import { AdminNav } from "./admin/nav.js";
import { said } from "./webhooks.js";

/** @typedef {import("../store.js").Schemas} Schemas */

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const id = Number(params.webhook);
    const path = { params: { path: { webhook_id: id } } };
    const live = useLive(
      `webhooks: ${id}`,
      async (signal) => (await ok(api.GET("/api/v1/webhooks", { signal }))).webhooks.find((one) => one.id === id) ?? "",
    );
    const deliveries = useLive(`webhooks: deliveries of ${id}`, async (signal) =>
      ok(api.GET("/api/v1/windlass/webhooks/{webhook_id}/deliveries", { ...path, signal })),
    );
    if (live.data === "")
      return Problem({ error: new Error(`There is no webhook ${params.webhook} that you may see.`) });
    const webhook = live.data;
    if (!webhook) return pending(live);
    return h(
      "section",
      null,
      AdminNav({ current: "webhooks" }),
      Heading({
        title: webhook.name,
        children: deliveries.data && Actions({ webhook, done: live.refresh, tried: deliveries.refresh }),
      }),
      Facts({
        facts: [
          ["URL", webhook.url],
          ["Type", said(webhook.webhookType, "WEBHOOK_TYPE_")],
          ["Of", webhook.workspaceId ? `workspace ${webhook.workspaceId}` : "the whole cluster"],
          ["Experiments", webhook.mode === "WEBHOOK_MODE_SPECIFIC" ? "those that name it" : "all"],
          [
            "Told of",
            webhook.triggers.map(
              ({ triggerType, condition }) => `${said(triggerType, "TRIGGER_TYPE_")} ${value(condition)} `,
            ),
          ],
        ],
      }),
      h("h2", null, "Deliveries"),
      deliveries.data ? Deliveries({ rows: deliveries.data.deliveries }) : pending(deliveries),
      Command({ text: shell`det webhook deliveries ${id}` }),
    );
  },
);

const Deliveries = component(
  /** @param {{ rows: Schemas["DeliveryJson"][] }} props */
  ({ rows }) =>
    ShortTable({
      label: "Deliveries",
      rows,
      rowKey: (one) => one.eventId,
      columns: [
        { title: "Since", cell: (one) => moment(one.createdAt) },
        { title: "Event", cell: (one) => `${said(one.eventType, "TRIGGER_TYPE_")} ${value(one.condition)}` },
        {
          title: "Experiment",
          cell: (one) =>
            one.experimentId &&
            h("a", { href: href(`experiments/${one.experimentId}`) }, `experiment ${one.experimentId}`),
        },
        { title: "Attempts", isNumber: true, cell: (one) => one.attempts },
        { title: "Last result", cell: (one) => one.lastResult || "not tried yet" },
        {
          title: "State",
          cell: ({ deliveredAt, nextTry }) =>
            deliveredAt ? `delivered ${time(deliveredAt)}` : nextTry ? `tried again ${time(nextTry)}` : "given up",
        },
      ],
      empty: "No calls in the last days. “Send a test” makes one now.",
    }),
);

const Actions = component(
  /** @param {{ webhook: Schemas["WebhookJson"], done: () => void, tried: () => void }} props */
  ({ webhook, done, tried }) => {
    const path = { params: { path: { webhook_id: webhook.id } } };
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the webhook" },
      Act({
        verb: "Send a test",
        act: () => ok(api.POST("/api/v1/webhooks/{webhook_id}/test", path)),
        done: tried,
        said: "The test was delivered.",
      }),
      FormButton({
        verb: "Edit",
        title: `Edit ${webhook.name}`,
        fields: [{ name: "url", label: "URL", value: webhook.url, required: true }],
        submit: ({ url = "" }) => ok(api.PATCH("/api/v1/webhooks/{webhook_id}", { ...path, body: { url } })),
        done,
      }),
      Act({
        verb: "Delete",
        act: async () => {
          await ok(api.DELETE("/api/v1/webhooks/{webhook_id}", path));
          go(href("webhooks"));
        },
        question: { title: `Delete webhook ${webhook.name}?`, text: "Calls that wait are not made." },
      }),
    );
  },
);
