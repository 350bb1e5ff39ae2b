// Where one can go: what the navigation, its keys and the palette offer.

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
