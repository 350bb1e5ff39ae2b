// Where one can go: what the navigation, its keys and the palette offer.

import { href } from "./router.js";

/** @typedef {{ title: string, path: string, key: string, begins: string[] }} Place */

/** In the navigation. @type {Place[]} */
export const PLACES = [
  { title: "Home", path: "dashboard", key: "g h", begins: ["dashboard"] },
  {
    title: "Experiments",
    path: "experiments",
    key: "g e",
    begins: ["experiments", "runs", "projects", "trials", "compare", "new"],
  },
  { title: "Queue", path: "queue", key: "g q", begins: ["queue", "jobs"] },
  { title: "Cluster", path: "clusters", key: "g c", begins: ["clusters", "agents", "resourcepool"] },
  {
    title: "Tasks",
    path: "tasks",
    key: "g t",
    begins: ["tasks", "command", "jupyter-lab", "shell", "tensor-board"],
  },
  { title: "Fleet and costs", path: "fleet/timeline", key: "g f", begins: ["fleet", "costs"] },
  { title: "Models", path: "models", key: "g m", begins: ["models"] },
  { title: "Workspaces", path: "workspaces", key: "g w", begins: ["workspaces"] },
  { title: "Admin", path: "admin", key: "g a", begins: ["admin", "templates", "config-policies", "webhooks"] },
];

/** Further pages that have no parameter. @type {{ title: string, path: string }[]} */
export const FURTHER = [
  { title: "New experiment", path: "new" },
  { title: "Runs", path: "runs" },
  { title: "Offers of machines", path: "fleet/offers" },
  { title: "Decisions about machines", path: "fleet/decisions" },
  { title: "What if", path: "fleet/plan" },
  { title: "Batch jobs", path: "fleet/batch-jobs" },
  { title: "Costs and budgets", path: "costs" },
  { title: "Costs by day", path: "costs?by=day" },
  { title: "Historical usage", path: "clusters/historical-usage" },
  { title: "Log of the master", path: "clusters/logs" },
  { title: "Templates", path: "templates" },
  { title: "Config policies", path: "config-policies" },
  { title: "Webhooks", path: "webhooks" },
  { title: "Groups", path: "admin/groups" },
  { title: "Roles", path: "admin/roles" },
  { title: "Access tokens", path: "admin/tokens" },
  { title: "Sessions", path: "admin/sessions" },
  { title: "Audit log", path: "admin/audit" },
  { title: "Configuration of the master", path: "admin/settings" },
  { title: "About", path: "admin/about" },
  { title: "Your settings", path: "settings" },
];

/** @typedef {import("./store.js").Schemas["FoundThing"]["kind"]} Kind */

/** Of what has a name or an id. @type {Record<Kind, (id: string, name: string) => string>} */
const PAGES_OF = {
  experiment: (id) => href(`experiments/${id}`),
  trial: (id) => href(`trials/${id}`),
  project: (id) => href(`projects/${id}/experiments`),
  workspace: (id) => href(`workspaces/${id}`),
  model: (id) => href(`models/${id}`),
  template: (_, name) => href("templates", { name }),
  task: (id) => href(`tasks/${encodeURIComponent(id)}/logs`),
  user: (id) => href(`admin/users/${id}`),
  pool: (id) => href(`queue/${encodeURIComponent(id)}`),
  agent: (id) => href(`agents/${encodeURIComponent(id)}`),
};

/** @param {Kind} kind @param {string} id @param {string} [name] */
export function pageOf(kind, id, name = "") {
  return PAGES_OF[kind](id, name);
}

/** The page of what a task is of. @param {string} taskId */
export function taskHref(taskId) {
  const experiment = /^(\d+)\./.exec(taskId)?.[1];
  return experiment ? pageOf("experiment", experiment) : pageOf("task", taskId);
}
