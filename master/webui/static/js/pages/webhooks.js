// Webhooks: whom the master tells of what.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { go, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { FormButton } from "../widgets/form.js";
import { objectOf } from "../widgets/json.js";
import { Heading, pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";
import { AdminNav } from "./admin/nav.js";

/** @typedef {import("../store.js").Schemas} Schemas */

/** @typedef {Schemas["PostWebhook"]} New */

const TRIGGERS = ["EXPERIMENT_STATE_CHANGE", "METRIC_THRESHOLD_EXCEEDED", "TASK_LOG", "CUSTOM"];

/** @param {string} word @param {string} prefix */
export function said(word, prefix) {
  return word.replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

export default component(() => {
  const may = useRights();
  const live = useLive("webhooks + workspaces", async (signal) => {
    const [{ webhooks }, { workspaces }] = await Promise.all([
      ok(api.GET("/api/v1/webhooks", { signal })),
      ok(api.GET("/api/v1/workspaces", { signal })),
    ]);
    return { webhooks, workspaces };
  });
  if (!live.data) return pending(live);
  const { webhooks, workspaces } = live.data;
  const places = workspaces.filter((one) => may("EDIT_WEBHOOKS", { workspace: one.id, owner: one.userId }));
  const ofCluster = may("EDIT_WEBHOOKS");
  return h(
    "section",
    null,
    AdminNav({ current: "webhooks" }),
    Heading({
      title: "Webhooks",
      children: (ofCluster || places.length > 0) && New({ places, ofCluster }),
    }),
    ShortTable({
      label: "Webhooks",
      rows: webhooks,
      rowKey: (one) => one.id,
      columns: [
        { title: "Name", cell: (one) => h("a", { href: href(`webhooks/${one.id}`) }, one.name) },
        { title: "URL", cell: (one) => one.url },
        { title: "Type", cell: (one) => said(one.webhookType, "WEBHOOK_TYPE_") },
        {
          title: "Of",
          cell: (one) =>
            one.workspaceId
              ? (workspaces.find(({ id }) => id === one.workspaceId)?.name ?? `workspace ${one.workspaceId}`)
              : "the whole cluster",
        },
        {
          title: "Told of",
          cell: (one) => one.triggers.map(({ triggerType }) => said(triggerType, "TRIGGER_TYPE_")).join(", "),
        },
      ],
      empty: "No webhooks yet. One is a URL that is called when an experiment ends or a log line matches.",
    }),
    Command({ text: "det webhook list" }),
  );
});

const New = component(
  /** @param {{ places: Schemas["Workspace"][], ofCluster: boolean }} props */
  ({ places, ofCluster }) =>
    FormButton({
      verb: "New webhook",
      title: "New webhook",
      isMain: true,
      fields: [
        { name: "name", label: "Name", required: true },
        { name: "url", label: "URL", required: true },
        {
          name: "webhookType",
          label: "Type",
          options: [
            { value: "WEBHOOK_TYPE_DEFAULT", text: "signed JSON" },
            { value: "WEBHOOK_TYPE_SLACK", text: "message of Slack" },
          ],
        },
        {
          name: "workspaceId",
          label: "Of",
          options: [
            ...(ofCluster ? [{ value: "0", text: "the whole cluster" }] : []),
            ...places.map((one) => ({ value: String(one.id), text: one.name })),
          ],
        },
        {
          name: "mode",
          label: "Told of",
          options: [
            { value: "WEBHOOK_MODE_WORKSPACE", text: "all experiments there" },
            { value: "WEBHOOK_MODE_SPECIFIC", text: "experiments that name it in their configuration" },
          ],
        },
        {
          name: "triggerType",
          label: "When",
          options: TRIGGERS.map((one) => ({ value: `TRIGGER_TYPE_${one}`, text: said(one, "") })),
        },
        {
          name: "condition",
          label: "Condition (JSON)",
          kind: "area",
          value: '{"state": "COMPLETED"}',
          hint: 'Such as {"state": "ERROR"} or, of a log line, {"regex": "CUDA error"}',
        },
      ],
      submit: async ({ name = "", url = "", webhookType, workspaceId, mode, triggerType = "", condition }) => {
        const { webhook } = await ok(
          api.POST("/api/v1/webhooks", {
            body: {
              name,
              url,
              webhookType: /** @type {New["webhookType"]} */ (webhookType),
              mode: /** @type {New["mode"]} */ (mode),
              workspaceId: Number(workspaceId),
              triggers: [
                {
                  triggerType: /** @type {Schemas["TriggerBody"]["triggerType"]} */ (triggerType),
                  condition: objectOf("condition", condition),
                },
              ],
            },
          }),
        );
        go(href(`webhooks/${webhook.id}`));
      },
    }),
);
