// Where a new experiment belongs, and which template lies under its configuration.

import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";

/** @typedef {{ project: number, template: string }} Chosen */

const EVERY_MS = 60_000;
const MOST = 500;

export const Places = component(
  /** @param {{ draft: Chosen, change: (changes: Partial<Chosen>) => void }} props */
  ({ draft, change }) => {
    const { data } = useLive("where experiments go", read, { everyMs: EVERY_MS });
    const projects = (data?.projects ?? []).map((one) => ({
      value: String(one.id),
      text: `${one.workspaceName} / ${one.name}`,
    }));
    const templates = (data?.templates ?? []).map(({ name }) => ({ value: name, text: name }));
    return h(
      "div",
      { class: "options" },
      Choice({
        label: "Project",
        value: draft.project ? String(draft.project) : "",
        options: [{ value: "", text: "as the configuration says" }, ...projects],
        onChange: (id) => change({ project: Number(id) }),
      }),
      Choice({
        label: "Template",
        value: draft.template,
        options: [{ value: "", text: "none" }, ...templates],
        onChange: (template) => change({ template }),
      }),
    );
  },
);

/** @typedef {{ value: string, text: string }} Option */

const Choice = component(
  /** @param {{ label: string, value: string, options: Option[], onChange: (value: string) => void }} props */
  ({ label, value, options, onChange }) => {
    // One that is not in the list stays chosen: the list may not be there yet, or it may be gone.
    const all = options.some((one) => one.value === value) ? options : [...options, { value, text: value }];
    return h(
      "label",
      null,
      label,
      h(
        "select",
        { value, onChange: (event) => onChange(event.currentTarget.value) },
        all.map((one) => h("option", { key: one.value, value: one.value }, one.text)),
      ),
    );
  },
);

/** @param {AbortSignal} signal */
async function read(signal) {
  const query = { limit: MOST };
  const [projects, templates] = await Promise.all([
    ok(api.GET("/api/v1/workspaces/{id}/projects", { params: { path: { id: 0 }, query }, signal })),
    ok(api.GET("/api/v1/templates", { params: { query }, signal })),
  ]);
  const open = projects.projects.filter((one) => !one.archived);
  return { projects: open, templates: templates.templates };
}
