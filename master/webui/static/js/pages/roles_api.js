// The body of a request that gives or takes one role.

/**
 * @param {"user" | "group"} kind
 * @param {number} id
 * @param {number} roleId
 * @param {number | null} workspace null: the cluster
 */
export function assignment(kind, id, roleId, workspace) {
  const roleAssignment = { role: { roleId }, ...(workspace === null ? {} : { scopeWorkspaceId: workspace }) };
  return kind === "user"
    ? { userRoleAssignments: [{ userId: id, roleAssignment }] }
    : { groupRoleAssignments: [{ groupId: id, roleAssignment }] };
}
