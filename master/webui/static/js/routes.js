// Which module shows which address below `/det/`. The master reads the lines of this table too (master/webui/shell.py).

/** @typedef {Record<string, string>} Params */
/** @typedef {{ params: Params }} PageProps */
/** @typedef {{ default: (props: PageProps) => import("./html.js").Element }} PageModule */
/** @typedef {{ parts: string[], load: () => Promise<PageModule> }} Route */

/**
 * @param {string} pattern segments; `:name` is any, `:name?` may be missing at the end
 * @param {() => Promise<PageModule>} load
 * @returns {Route}
 */
function route(pattern, load) {
  return { parts: pattern.split("/"), load };
}

const ROUTES = [
  route("", () => import("./pages/home.js")),
  route("dashboard", () => import("./pages/home.js")),
  route("new", () => import("./pages/new.js")),
  route("experiments", () => import("./pages/experiments.js")),
  route("runs", () => import("./pages/runs.js")),
  route("workspaces", () => import("./pages/workspaces.js")),
  route("workspaces/:workspace/:tab?", () => import("./pages/workspace.js")),
  route("projects/:project/runs", () => import("./pages/runs.js")),
  route("projects/:project/notes", () => import("./pages/project_notes.js")),
  route("models", () => import("./pages/models.js")),
  route("models/:model", () => import("./pages/model.js")),
  route("models/:model/versions", () => import("./pages/model.js")),
  route("models/:model/versions/:version", () => import("./pages/model_version.js")),
  route("templates", () => import("./pages/templates.js")),
  route("config-policies", () => import("./pages/policies.js")),
  route("webhooks", () => import("./pages/webhooks.js")),
  route("webhooks/:webhook", () => import("./pages/webhook.js")),
  route("admin", () => import("./pages/admin/users.js")),
  route("admin/users", () => import("./pages/admin/users.js")),
  route("admin/users/:user", () => import("./pages/admin/user.js")),
  route("admin/groups", () => import("./pages/admin/groups.js")),
  route("admin/groups/:group", () => import("./pages/admin/group.js")),
  route("admin/roles", () => import("./pages/admin/roles.js")),
  route("admin/tokens", () => import("./pages/admin/tokens.js")),
  route("admin/sessions", () => import("./pages/admin/sessions.js")),
  route("admin/audit", () => import("./pages/admin/audit.js")),
  route("admin/settings", () => import("./pages/admin/master.js")),
  route("admin/about", () => import("./pages/admin/about.js")),
  route("settings", () => import("./pages/settings.js")),
  route("projects/:project/:tab?", () => import("./pages/experiments.js")),
  route("experiments/:experiment/:tab?", () => import("./pages/experiment.js")),
  route("experiments/:experiment/trials/:trial/:tab?", () => import("./pages/trial.js")),
  route("trials/:trial/:tab?", () => import("./pages/trial.js")),
  route("queue/:pool?", () => import("./pages/queue.js")),
  route("jobs/:job", () => import("./pages/job.js")),
  route("clusters", () => import("./pages/clusters.js")),
  route("agents/:agent", () => import("./pages/agent.js")),
  route("tasks/:kind?", () => import("./pages/tasks.js")),
  route("tasks/:task/logs", () => import("./pages/task_logs.js")),
  route("command/:task/logs", () => import("./pages/task_logs.js")),
  route("jupyter-lab/:task/logs", () => import("./pages/task_logs.js")),
  route("shell/:task/logs", () => import("./pages/task_logs.js")),
  route("tensor-board/:task/logs", () => import("./pages/task_logs.js")),
  route("compare", () => import("./pages/compare.js")),
  route("costs", () => import("./pages/costs.js")),
  route("fleet", () => import("./pages/fleet_timeline.js")),
  route("fleet/timeline", () => import("./pages/fleet_timeline.js")),
  route("fleet/offers", () => import("./pages/fleet_offers.js")),
  route("fleet/decisions", () => import("./pages/fleet_decisions.js")),
  route("fleet/plan", () => import("./pages/fleet_plan.js")),
  route("fleet/batch-jobs", () => import("./pages/batch_jobs.js")),
  route("resourcepool/:pool/:tab?", () => import("./pages/pool.js")),
  route("clusters/historical-usage", () => import("./pages/usage.js")),
  route("clusters/logs", () => import("./pages/master_log.js")),
];

/**
 * @param {string} path
 * @returns {{ route: Route, params: Params } | null}
 */
export function match(path) {
  const segments = path.split("/");
  for (const one of ROUTES) {
    const params = paramsOf(one.parts, segments);
    if (params) return { route: one, params };
  }
  return null;
}

/**
 * @param {string[]} parts
 * @param {string[]} segments
 */
function paramsOf(parts, segments) {
  const isShort = segments.length === parts.length - 1 && parts.at(-1)?.endsWith("?");
  if (segments.length !== parts.length && !isShort) return null;
  /** @type {Params} */
  const params = {};
  for (const [index, segment] of segments.entries()) {
    const part = parts[index] ?? "";
    if (!part.startsWith(":")) {
      if (part !== segment) return null;
    } else if (segment) {
      params[part.slice(1).replace("?", "")] = decoded(segment);
    } else {
      return null;
    }
  }
  return params;
}

/** @param {string} segment */
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
