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
    const { data } = useLive("templates: their names", readTemplates, { everyMs: EVERY_MS });
    const templates = (data ?? []).map(({ name }) => ({ value: name, text: name }));
    return h(
      "div",
      { class: "options" },
      ProjectChoice({
        value: draft.project,
        nothing: "as the configuration says",
        onChange: (project) => change({ project }),
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

export const ProjectChoice = component(
  /** @param {{ value: number, nothing: string, onChange: (id: number) => void }} props nothing: what 0 stands for */
  ({ value, nothing, onChange }) => {
    const { data } = useLive("workspaces: open projects", readProjects, { everyMs: EVERY_MS });
    const projects = (data ?? []).map(({ id, workspaceName, name }) => ({
      value: String(id),
      text: `${workspaceName} / ${name}`,
    }));
    return Choice({
      label: "Project",
      value: value ? String(value) : "",
      options: [{ value: "", text: nothing }, ...projects],
      onChange: (id) => onChange(Number(id)),
    });
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
async function readProjects(signal) {
  const params = { path: { id: 0 }, query: { limit: MOST } };
  const { projects } = await ok(api.GET("/api/v1/workspaces/{id}/projects", { params, signal }));
  return projects.filter((one) => !one.archived);
}

/** @param {AbortSignal} signal */
async function readTemplates(signal) {
  return (await ok(api.GET("/api/v1/templates", { params: { query: { limit: MOST } }, signal }))).templates;
}
