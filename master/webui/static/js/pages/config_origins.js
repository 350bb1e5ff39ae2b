// Each value of a configuration with where it comes from: its user, a template, a policy, or defaults.

import { useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { value } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas["ConfigOrigin"]} ConfigOrigin */
/** @typedef {{ path: string, value: unknown, from: string }} Row */

const EVERY_MS = 60_000;
const DEFAULT = "default";
/** @type {Record<ConfigOrigin["source"], (name: string) => string>} */
const SOURCES = {
  SUBMITTED: () => "as submitted",
  TEMPLATE: (name) => `template ${name}`,
  POLICY: (name) => `config policy of ${name}`,
  POOL: (name) => `defaults of pool ${name}`,
  WORKSPACE: () => "checkpoint storage of the workspace",
  CLUSTER: () => "checkpoint storage of the cluster",
};

export const Origins = component(
  /** @param {{ config: Record<string, unknown>, origins: ConfigOrigin[] }} props */
  ({ config, origins }) => {
    const [all, setAll] = useState(false);
    const rows = rowsOf(config, origins);
    return group(
      h(
        "label",
        null,
        h("input", { type: "checkbox", checked: all, onChange: (event) => setAll(event.currentTarget.checked) }),
        " defaults too",
      ),
      ShortTable({
        label: "Where each value comes from",
        rows: rows.filter(({ from }) => all || from !== DEFAULT),
        rowKey: ({ path }) => path,
        columns: [
          { title: "Key", cell: ({ path }) => h("code", null, path) },
          { title: "Value", cell: (row) => value(row.value) },
          { title: "From", cell: ({ from }) => from },
        ],
        empty: "All values are defaults.",
      }),
    );
  },
);

/** Of one that was submitted. */
export const OriginsOf = component(
  /** @param {{ experiment: number }} props */
  ({ experiment }) => {
    const live = useLive(
      `me: origins of ${experiment}`,
      (signal) =>
        ok(api.GET("/api/v1/experiments/{experiment_id}", { params: { path: { experiment_id: experiment } }, signal })),
      { everyMs: EVERY_MS },
    );
    if (!live.data) return pending(live);
    const { config, origins, template } = live.data;
    if (!config || !origins) {
      return h(
        "p",
        { class: "note" },
        "It was submitted to an earlier release, which did not keep where values come from.",
      );
    }
    return group(
      template && h("p", { class: "note" }, `Submitted with template ${template}.`),
      Origins({ config, origins }),
    );
  },
);

/** @param {Record<string, unknown>} config @param {ConfigOrigin[]} origins @returns {Row[]} */
function rowsOf(config, origins) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const { path, source, name } of origins) found.set(path, [...(found.get(path) ?? []), SOURCES[source](name)]);
  return valuesOf(config, "").map(([path, one]) => ({
    path,
    value: one,
    from: found.get(path)?.join(" and ") ?? DEFAULT,
  }));
}

/** @param {Record<string, unknown>} tree @param {string} above @returns {[string, unknown][]} */
function valuesOf(tree, above) {
  return Object.keys(tree)
    .sort()
    .flatMap((key) => {
      const [path, one] = [above + key, tree[key]];
      const isSection = typeof one === "object" && one !== null && !Array.isArray(one) && Object.keys(one).length > 0;
      if (isSection) return valuesOf(/** @type {Record<string, unknown>} */ (one), `${path}.`);
      return one === null ? [] : [/** @type {[string, unknown]} */ ([path, one])];
    });
}
