// What who is logged in may do to the cluster, so that pages need not offer the rest. The master decides.

import { api, ok } from "./api.js";
import { useLive } from "./live.js";
import { me } from "./store.js";

/** @typedef {import("./store.js").Schemas["PermissionType"]} Permission */

const EVERY_MS = 60_000;

/**
 * Null while it is not known.
 *
 * @param {Permission} permission of the whole cluster
 * @returns {boolean | null}
 */
export function useMay(permission) {
  const { data } = useLive("my permissions", (signal) => ok(api.GET("/api/v1/permissions/summary", { signal })), {
    everyMs: EVERY_MS,
  });
  if (me.value?.admin) return true;
  if (!data || !me.value) return null;
  const everywhere = new Set(data.assignments.filter((one) => one.scopeCluster).map((one) => one.roleId));
  return data.roles.some(
    (role) => everywhere.has(role.roleId) && role.permissions.some((one) => one.id === permission),
  );
}
