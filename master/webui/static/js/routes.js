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
  route("experiments", () => import("./pages/experiments.js")),
  route("projects/:project/:tab?", () => import("./pages/experiments.js")),
  route("experiments/:experiment/:tab?", () => import("./pages/experiment.js")),
  route("experiments/:experiment/trials/:trial/:tab?", () => import("./pages/trial.js")),
  route("trials/:trial/:tab?", () => import("./pages/trial.js")),
  route("costs", () => import("./pages/costs.js")),
  route("fleet", () => import("./pages/fleet_timeline.js")),
  route("fleet/timeline", () => import("./pages/fleet_timeline.js")),
  route("fleet/offers", () => import("./pages/fleet_offers.js")),
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
