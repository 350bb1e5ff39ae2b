// Templates, of all workspaces or of one: looked at, made, changed, deleted.

import { api, ok } from "../api.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { say } from "../store.js";
import { Act } from "../widgets/act.js";
import { FormButton } from "../widgets/form.js";
import { objectOf, text } from "../widgets/json.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas["Template"]} Template */

const MOST = 500;

export const TemplateTable = component(
  /** @param {{ workspace: number, name?: string }} props workspace 0: of all */
  ({ workspace, name = "" }) => {
    const may = useRights();
    const live = useLive(`templates: of ${workspace} ${name}`, async (signal) => {
      const query = { name, limit: MOST, ...(workspace ? { workspaceIds: [workspace] } : {}) };
      return ok(api.GET("/api/v1/templates", { params: { query }, signal }));
    });
    const workspaces = useLive(
      "workspaces: their names",
      async (signal) => (await ok(api.GET("/api/v1/workspaces", { signal }))).workspaces,
      { everyMs: 60_000 },
    ).data;
    if (!live.data) return pending(live);
    const { templates, pagination } = live.data;
    const places = (workspaces ?? []).filter((one) => !one.archived && (!workspace || one.id === workspace));
    const nameOf = (/** @type {number} */ id) => workspaces?.find((one) => one.id === id)?.name ?? String(id);
    return group(
      may("CREATE_TEMPLATES", { workspace, anybody: true }) &&
        FormButton({
          verb: "New template",
          title: "New template",
          isMain: true,
          fields: [
            { name: "name", label: "Name", required: true },
            {
              name: "workspaceId",
              label: "Workspace",
              options: places.map((one) => ({ value: String(one.id), text: one.name })),
            },
            { name: "config", label: "Configuration (JSON)", kind: "code", value: "{\n}" },
          ],
          submit: ({ name = "", workspaceId, config }) =>
            stored(
              api.POST("/api/v1/templates/{template_name}", {
                params: { path: { template_name: name } },
                body: { name, workspaceId: Number(workspaceId ?? 0), config: objectOf("config", config) },
              }),
            ),
          done: live.refresh,
        }),
      pagination.total > MOST && h("p", { class: "note" }, `The first ${MOST} of ${pagination.total}: search by name.`),
      ShortTable({
        label: "Templates",
        rows: templates,
        rowKey: (one) => one.name,
        columns: [
          { title: "Name", cell: (one) => one.name },
          { title: "Workspace", cell: (one) => nameOf(one.workspaceId) },
          { title: "Owner", cell: (one) => one.username },
          { title: "Changed", cell: (one) => moment(one.modifiedAt) },
          { title: "", cell: (one) => RowActions({ template: one, may, done: live.refresh }) },
        ],
        empty: name
          ? "No template has this in its name."
          : "No templates yet. One is a part of a configuration that experiments and tasks name with --template.",
      }),
    );
  },
);

const RowActions = component(
  /** @param {{ template: Template, may: import("../rights.js").May, done: () => void }} props */
  ({ template, may, done }) => {
    const { name, config, workspaceId, userId } = template;
    const params = { path: { template_name: name } };
    const target = { workspace: workspaceId, owner: userId };
    const isMine = may("UPDATE_TEMPLATES", target);
    return group(
      FormButton({
        verb: isMine ? "Edit" : "Look",
        title: name,
        isReadOnly: !isMine,
        fields: [{ name: "config", label: "Configuration (JSON)", kind: "code", value: text(config) }],
        submit: (values) =>
          stored(api.PATCH("/api/v1/templates/{template_name}", { params, body: objectOf("config", values.config) })),
        done,
      }),
      may("DELETE_TEMPLATES", target) &&
        Act({
          verb: "Delete",
          of: name,
          act: () => ok(api.DELETE("/api/v1/templates/{template_name}", { params })),
          done,
          question: { title: `Delete template ${name}?`, text: "What was submitted with it keeps its configuration." },
        }),
    );
  },
);

/** @typedef {import("../store.js").Schemas["StoredTemplateReply"]} Stored */

/** Says who cannot use it, too. @param {Promise<{ data?: Stored, error?: unknown, response: Response }>} call */
async function stored(call) {
  const { configWarnings } = await ok(call);
  say(["Stored.", ...configWarnings].join(" "));
}
