"""The page of roles: which permissions each has."""

from __future__ import annotations

from master.core.roles.catalogue import FIXED_ROLES
from master.core.roles.permissions import Permission


def roles_page() -> str:
    lines = [
        "# Roles and permissions",
        "",
        "What each of the fixed roles may do where `security.authz.type` is `rbac` ([roles](../roles.md)).",
        "ClusterAdmin may do everything.",
        "A role with a permission of the cluster alone cannot be assigned to a workspace.",
        "",
        "| permission | allows to | cluster alone | roles besides ClusterAdmin |",
        "| --- | --- | --- | --- |",
    ]
    for permission in Permission:
        holders = [role.name for role in FIXED_ROLES[1:] if permission in role.permissions]
        alone = "yes" if permission.is_cluster_only else ""
        lines.append(
            f"| `{permission.name}` | {permission.text} | {alone} | {', '.join(holders)} |"
        )
    lines += [
        "",
        "| role | id | in workspaces | permissions |",
        "| --- | --- | --- | --- |",
    ]
    for role in FIXED_ROLES:
        where = "no" if role.is_cluster_only else "yes"
        lines.append(f"| {role.name} | {int(role.id)} | {where} | {len(role.permissions)} |")
    return "\n".join(lines)
