// Config policies of the cluster or of a workspace: what is forced or bounded, and whose work is otherwise.

import { useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { say } from "../store.js";
import { Act } from "../widgets/act.js";
import { Form } from "../widgets/form.js";
import { text } from "../widgets/json.js";
import { pending } from "../widgets/page.js";

const KINDS = /** @type {const} */ ([
  { type: "EXPERIMENT", title: "Experiments" },
  { type: "NTSC", title: "Notebooks, TensorBoards, shells, commands, generic tasks" },
]);
/** @typedef {typeof KINDS[number]} Kind */

export const PolicyEditor = component(
  /** @param {{ workspace: number | null, owner?: number }} props workspace null: of the cluster */
  ({ workspace, owner }) =>
    group(
      h(
        "p",
        { class: "note" },
        "invariant_config is forced on what is submitted from now on; constraints bound it. ",
        workspace === null ? "They hold in all workspaces." : "Those of the cluster go before these.",
      ),
      KINDS.map((kind) => Policy({ key: kind.type, kind, workspace, owner })),
    ),
);

const Policy = component(
  /** @param {{ kind: Kind, workspace: number | null, owner?: number }} props */
  ({ kind, workspace, owner }) => {
    const may = useRights();
    const [affected, setAffected] = useState(/** @type {string[] | null} */ (null));
    const live = useLive(
      `policies: ${workspace} ${kind.type}`,
      async (signal) => (await ok(read(workspace, kind.type, signal))).configPolicies,
      { everyMs: 60_000 },
    );
    if (!live.data) return pending(live);
    const target = { workspace, owner };
    const isMine = may(
      workspace === null ? "MODIFY_GLOBAL_CONFIG_POLICIES" : "MODIFY_WORKSPACE_CONFIG_POLICIES",
      target,
    );
    const isThere = Object.keys(live.data).length > 0;
    return h(
      "section",
      { "aria-label": kind.title },
      h("h2", null, kind.title),
      !isMine &&
        h(
          "p",
          { class: "note" },
          isThere ? "You may not change them." : "None. You may not set any: that is for administrators.",
        ),
      (isMine || isThere) &&
        Form({
          key: `${isMine}`,
          verb: "Set",
          isReadOnly: !isMine,
          fields: [
            {
              name: "configPolicies",
              label: `Policies for ${kind.title.toLowerCase()} (YAML or JSON)`,
              kind: "code",
              value: isThere ? text(live.data) : "",
            },
          ],
          submit: async ({ configPolicies = "" }) => {
            const stored = await ok(write(workspace, kind.type, configPolicies));
            setAffected(stored.affected);
            say("Set.");
            live.refresh();
          },
        }),
      isMine &&
        isThere &&
        Act({
          verb: "Delete",
          of: `the policies for ${kind.title.toLowerCase()}`,
          act: () => ok(remove(workspace, kind.type)),
          done: live.refresh,
          said: "Deleted.",
          question: { title: "Delete these policies?", text: "What was submitted under them stays as it is." },
        }),
      affected &&
        h(
          "div",
          { role: "status" },
          h("h2", null, `Waits or runs otherwise than these policies say: ${affected.length}`),
          h(
            "ul",
            { class: "items" },
            affected.map((sentence) => h("li", { key: sentence }, sentence)),
          ),
        ),
    );
  },
);

/** @param {number | null} workspace @param {Kind["type"]} type @param {AbortSignal} signal */
function read(workspace, type, signal) {
  return workspace === null
    ? api.GET("/api/v1/config-policies/global/{workload_type}", { params: { path: { workload_type: type } }, signal })
    : api.GET("/api/v1/config-policies/workspaces/{workspace_id}/{workload_type}", {
        params: { path: { workspace_id: workspace, workload_type: type } },
        signal,
      });
}

/** @param {number | null} workspace @param {Kind["type"]} type @param {string} configPolicies */
function write(workspace, type, configPolicies) {
  const body = { configPolicies };
  return workspace === null
    ? api.PUT("/api/v1/config-policies/global/{workload_type}", { params: { path: { workload_type: type } }, body })
    : api.PUT("/api/v1/config-policies/workspaces/{workspace_id}/{workload_type}", {
        params: { path: { workspace_id: workspace, workload_type: type } },
        body,
      });
}

/** @param {number | null} workspace @param {Kind["type"]} type */
function remove(workspace, type) {
  return workspace === null
    ? api.DELETE("/api/v1/config-policies/global/{workload_type}", { params: { path: { workload_type: type } } })
    : api.DELETE("/api/v1/config-policies/workspaces/{workspace_id}/{workload_type}", {
        params: { path: { workspace_id: workspace, workload_type: type } },
      });
}
