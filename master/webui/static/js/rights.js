// What the one who looks may do, for pages to leave out the rest. The master decides; this only shows.

import { api, ok } from "./api.js";
import { useLive } from "./live.js";
import { me } from "./store.js";

/** @typedef {import("./store.js").Schemas} Schemas */
/** @typedef {Schemas["PermissionType"] extends `PERMISSION_TYPE_${infer Name}` ? Name : never} Permission */
/** @typedef {{ workspace?: number | null, owner?: number, anybody?: boolean }} Target anybody: all, without roles */
/** @typedef {(permission: Permission, target?: Target) => boolean} May */

const EVERY_MS = 60_000;

/** What `useRights` says until it is known: nothing is allowed. @type {May} */
export const NOT_KNOWN = () => false;

/** @returns {May} */
export function useRights() {
  const { data } = useLive(
    "me: rights",
    async (signal) => {
      const [master, held] = await Promise.all([
        ok(api.GET("/api/v1/master", { signal })),
        ok(api.GET("/api/v1/permissions/summary", { signal })),
      ]);
      return { byRoles: master.rbacEnabled, held };
    },
    { everyMs: EVERY_MS },
  );
  const who = me.value;
  if (!data || !who) return NOT_KNOWN;
  return (permission, target = {}) => {
    if (!data.byRoles) return who.admin || target.anybody === true || target.owner === who.id;
    return data.held.roles.some((role, index) => {
      const where = data.held.assignments[index];
      const isThere = where?.scopeCluster || where?.scopeWorkspaceIds.includes(target.workspace ?? 0);
      return isThere && role.permissions.some((one) => one.id === `PERMISSION_TYPE_${permission}`);
    });
  };
}
