"""What a master does with the steps of `windlass admin apply`: refuses what it cannot do yet. For tests."""

from __future__ import annotations

from dataclasses import replace

from windlass.sdk.cluster_file.state import (
    Action,
    Assignment,
    ClusterState,
    Kind,
    ProjectState,
    Step,
    TemplateState,
    UserState,
    WorkspaceState,
)


def performed(cluster: ClusterState, step: Step) -> ClusterState:
    """The cluster after it. Raises AssertionError for a step that is out of order."""
    return _BY_KIND[step.kind](cluster, step)


def _user(cluster: ClusterState, step: Step) -> ClusterState:
    new = step.new()
    password = new.pop("password", None)
    if step.action is Action.CREATE:
        assert step.name not in cluster.users
        assert password is not None or new.get("remote"), "no password"
        return replace(cluster, users={**cluster.users, step.name: UserState(**new)})
    changed = replace(cluster.users[step.name], **new)
    return replace(cluster, users={**cluster.users, step.name: changed})


def _group(cluster: ClusterState, step: Step) -> ClusterState:
    assert (step.name in cluster.groups) is (step.action is Action.CHANGE)
    members = frozenset(step.new().get("members", ()))
    assert members <= set(cluster.users), "unknown members"
    for change in step.changes:
        assert frozenset(change.old) == cluster.groups.get(step.name, frozenset())
    return replace(cluster, groups={**cluster.groups, step.name: members})


def _workspace(cluster: ClusterState, step: Step) -> ClusterState:
    assert (step.name in cluster.workspaces) is (step.action is Action.CHANGE)
    old = cluster.workspaces.get(step.name, WorkspaceState())
    return replace(
        cluster, workspaces={**cluster.workspaces, step.name: replace(old, **step.new())}
    )


def _project(cluster: ClusterState, step: Step) -> ClusterState:
    assert step.workspace is not None
    owner = cluster.workspaces[step.workspace]
    assert (step.name in owner.projects) is (step.action is Action.CHANGE)
    project = replace(owner.projects.get(step.name, ProjectState()), **step.new())
    owner = replace(owner, projects={**owner.projects, step.name: project})
    return replace(cluster, workspaces={**cluster.workspaces, step.workspace: owner})


def _role(cluster: ClusterState, step: Step) -> ClusterState:
    assert step.holder is not None
    assert step.name in cluster.roles
    assert step.workspace is None or step.workspace in cluster.workspaces
    known = cluster.users if step.holder.kind == "user" else cluster.groups
    assert step.holder.name in known
    one = Assignment(step.name, step.holder, step.workspace)
    assert (one in cluster.assignments) is (step.action is Action.REMOVE)
    return replace(cluster, assignments=cluster.assignments ^ {one})


def _pool(cluster: ClusterState, step: Step) -> ClusterState:
    bound = frozenset(step.new()["workspaces"])
    assert bound <= set(cluster.workspaces)
    assert step.name in cluster.pools
    return replace(cluster, pools={**cluster.pools, step.name: bound})


def _template(cluster: ClusterState, step: Step) -> ClusterState:
    assert step.workspace is not None
    assert step.workspace in cluster.workspaces
    assert (step.name in cluster.templates) is (step.action is Action.CHANGE)
    template = TemplateState(step.workspace, step.new()["config"])
    return replace(cluster, templates={**cluster.templates, step.name: template})


def _policy(cluster: ClusterState, step: Step) -> ClusterState:
    assert step.workspace is None or step.workspace in cluster.workspaces
    assert step.name in ("experiment", "tasks")
    policies = dict(cluster.policies)
    old = policies.pop((step.workspace, step.name), None)
    assert (old is None) is (step.action is Action.CREATE)
    if (new := step.new()["policy"]) is not None:
        policies[step.workspace, step.name] = new
    return replace(cluster, policies=policies)


_BY_KIND = {
    Kind.USER: _user,
    Kind.GROUP: _group,
    Kind.WORKSPACE: _workspace,
    Kind.PROJECT: _project,
    Kind.ROLE: _role,
    Kind.POOL: _pool,
    Kind.TEMPLATE: _template,
    Kind.POLICY: _policy,
}
