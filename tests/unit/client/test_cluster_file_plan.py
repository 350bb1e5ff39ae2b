"""`windlass admin apply`, its pure part: what a file says, what is wrong with it, and the steps to get there."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from cluster_file_model import performed
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from windlass.base.errors import InvalidConfig
from windlass.sdk.cluster_file.model import ClusterFile
from windlass.sdk.cluster_file.plan import plan, problems
from windlass.sdk.cluster_file.reading import read_text
from windlass.sdk.cluster_file.state import (
    Action,
    Assignment,
    ClusterState,
    Holder,
    Kind,
    UserState,
    WorkspaceState,
)

FIRST = ClusterState(
    users={"admin": UserState(admin=True), "determined": UserState()},
    workspaces={"Uncategorized": WorkspaceState()},
    roles={"ClusterAdmin": False, "Viewer": True, "Editor": True},
    assignments=frozenset({Assignment("ClusterAdmin", Holder("user", "admin"), None)}),
    pools={"gpu": frozenset(), "cpu": frozenset()},
)
USERS, GROUPS, SPACES = ["admin", "ann", "bob", "carl"], ["red", "blue"], ["Lab", "Shop"]


def file_of(document: dict[str, Any]) -> ClusterFile:
    return ClusterFile.model_validate(document)


def some(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True, max_size=3)


CONFIGS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3) | st.booleans(), min_size=1)
POLICIES = st.fixed_dictionaries(
    {}, optional={"experiment": st.none() | CONFIGS, "tasks": st.none() | CONFIGS}
)
HOLDERS = st.fixed_dictionaries({}, optional={"users": some(USERS), "groups": some(GROUPS)})


def any_holder(holders: dict[str, list[str]]) -> bool:
    return any(holders.values())


def roles(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), HOLDERS)


USER = st.fixed_dictionaries(
    {"password": st.just({"env": "PASSWORD"})},
    optional={
        "display_name": st.sampled_from(["", "Ann B"]),
        "admin": st.booleans(),
        "active": st.booleans(),
        "agent_user": st.none() | st.just({"user": "a", "uid": 1, "group": "g", "gid": 2}),
    },
)
WORKSPACE = st.fixed_dictionaries(
    {},
    optional={
        "agent_user": st.none() | st.just({"user": "a", "uid": 1, "group": "g", "gid": 2}),
        "default_compute_pool": st.sampled_from(["", "gpu", "cpu"]),
        "checkpoint_storage": st.none() | CONFIGS,
        "roles": roles("viewer", "Editor"),
        "projects": st.dictionaries(
            st.sampled_from(["one", "two"]),
            st.fixed_dictionaries({}, optional={"description": st.sampled_from(["", "x"])}),
        ),
        "config_policies": POLICIES,
    },
)


def whole(documents: dict[str, Any]) -> dict[str, Any]:
    """With all that is named: a file is complete in itself."""
    return {
        **documents,
        "users": {name: documents["users"].get(name, {"remote": True}) for name in USERS},
        "groups": {name: documents["groups"].get(name, {}) for name in GROUPS},
        "workspaces": {name: documents["workspaces"].get(name, {}) for name in SPACES},
    }


FILES = st.fixed_dictionaries(
    {
        "users": st.dictionaries(st.sampled_from(USERS), USER),
        "groups": st.dictionaries(
            st.sampled_from(GROUPS),
            st.fixed_dictionaries({}, optional={"members": some(USERS)}),
        ),
        "workspaces": st.dictionaries(st.sampled_from(SPACES), WORKSPACE),
        "roles": st.fixed_dictionaries(
            {}, optional={"Viewer": HOLDERS, "ClusterAdmin": HOLDERS.filter(any_holder)}
        ),
        "resource_pools": st.dictionaries(
            st.sampled_from(["gpu", "cpu"]), st.fixed_dictionaries({"workspaces": some(SPACES)})
        ),
        "config_policies": POLICIES,
        "templates": st.dictionaries(
            st.sampled_from(["t", "u"]),
            st.fixed_dictionaries({"config": CONFIGS}),
        ),
    }
).map(whole)


def applied(cluster: ClusterState, document: dict[str, Any]) -> ClusterState:
    """Each step finds what it needs, or `performed` fails."""
    file = file_of(document)
    assert problems(file, cluster) == []
    return reduce(performed, plan(file, cluster), cluster)


@settings(max_examples=examples(100))
@given(document=FILES)
def test_a_second_apply_has_nothing_to_do(document: dict[str, Any]) -> None:
    assert plan(file_of(document), applied(FIRST, document)) == []


@settings(max_examples=examples(100))
@given(first=FILES, second=FILES)
def test_of_two_files_the_second_counts(first: dict[str, Any], second: dict[str, Any]) -> None:
    """For all that it says, whatever was there."""
    there = applied(applied(FIRST, first), second)
    assert plan(file_of(second), there) == []
    for name, group in second["groups"].items():
        if "members" in group:
            assert there.groups[name] == set(group["members"])
    for name, workspace in second["workspaces"].items():
        if "roles" in workspace:
            wanted = {
                (role.lower(), holder)
                for role, holders in workspace["roles"].items()
                for kind in ("user", "group")
                for holder in holders.get(f"{kind}s", ())
            }
            held = {
                (one.role.lower(), one.holder.name)
                for one in there.assignments
                if one.workspace == name
            }
            assert held == wanted


@settings(max_examples=examples(100))
@given(first=FILES, second=FILES)
def test_an_apply_that_was_cut_off_goes_on(first: dict[str, Any], second: dict[str, Any]) -> None:
    before = applied(FIRST, first)
    steps = plan(file_of(second), before)
    half = reduce(performed, steps[: len(steps) // 2], before)
    assert applied(half, second) == reduce(performed, steps, before)


@settings(max_examples=examples(50))
@given(first=FILES, second=FILES)
def test_what_takes_comes_last(first: dict[str, Any], second: dict[str, Any]) -> None:
    steps = plan(file_of(second), applied(FIRST, first))
    gives = [
        at for at, one in enumerate(steps) if one.kind is Kind.ROLE and one.action is Action.CREATE
    ]
    takes = [
        at
        for at, one in enumerate(steps)
        if (one.kind is Kind.ROLE and one.action is Action.REMOVE)
        or (
            one.kind is Kind.USER
            and any(change.new is False and change.old for change in one.changes)
        )
    ]
    assert max(gives, default=-1) < min(takes, default=len(steps))


def test_what_is_not_in_the_file_is_not_touched() -> None:
    there = applied(
        FIRST,
        whole(
            {
                "users": {"ann": {"password": {"env": "A"}, "display_name": "Ann", "admin": True}},
                "groups": {"red": {"members": ["ann"]}},
                "roles": {"Viewer": {"groups": ["red"]}},
                "workspaces": {"Lab": {"roles": {"Editor": {"users": ["ann"]}}}},
                "config_policies": {"tasks": {"a": 1}},
            }
        ),
    )
    little = "users: {ann: }\ngroups: {red: }\nworkspaces: {lab: }"
    assert plan(read_text(little, "people.yaml")[0], there) == []
    assert plan(file_of({}), there) == []


def test_passwords_of_those_who_are_there_are_set_when_asked_for() -> None:
    file = file_of({"users": {"admin": {"password": {"env": "A"}}}})
    assert plan(file, FIRST) == []
    (step,) = plan(file, FIRST, set_passwords=True)
    assert [(one.field, one.new.env) for one in step.changes] == [("password", "A")]


REFUSED = [
    ("users:\n  ann: {admn: true}", "line 2: users.ann.admn: there is no such key: did you mean"),
    ("users:\n  ann:\n    admin: maybe", "line 3: users.ann.admin: expected true or false, but"),
    ("users:\n  ann:\n    password: hunter2", "line 3: users.ann.password: a password is never"),
    ("users:\n  ann:\n    password: {text: hunter2}", "users.ann.password.text: there is no such"),
    ("users:\n  ann:\n    password: {}", "users.ann.password: give either env or file"),
    ("users:\n  ann: {remote: true, password: {env: A}}", "a remote user has no password: remove"),
    ("users:\n  ann:\n  ANN:", 'line 3: users.ANN: "ANN" and "ann" are one name in letters of'),
    ("users:\n  ann:\n  ann:", 'line 3, column 3: the key "ann" is given twice'),
    ("users: [ann]", 'line 1: users: expected a mapping, but found ["ann"]'),
    ("groups:\n  red:\n    members: ann", "line 3: groups.red.members: expected a list, but"),
    ("groups:\n  red:\n    members:\n    - 5", "line 4: groups.red.members[0]: expected text"),
    ("roles:\n  Viewer:", "line 2: roles.Viewer: expected a mapping, but found nothing"),
    ("workspaces:\n  Lab:\n    roles:\n      Editor:", "line 4: workspaces.Lab.roles.Editor: exp"),
    ("- 1", "line 1: expected a mapping, but found [1]"),
    ("a: {", "line 1, column 5"),
    ("resource_pools:\n  gpu: {}", "line 2: resource_pools.gpu: workspaces is missing: give it"),
    (
        "workspaces:\n  Lab:\n    projects:\n      x: {key: abc}",
        "line 4: workspaces.Lab.projects.x.key: String should match pattern",
    ),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_cannot_be_read_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        read_text(text, "people.yaml")
    assert refused.value.message.startswith("invalid people.yaml: ")
    assert said in refused.value.message
    assert "hunter2" not in refused.value.message


UNKNOWN = [
    ("users:\n  ann:", "line 2: users.ann: a new user needs `password: {env: VARIABLE}`"),
    ("groups:\n  red:\n    members: [admn]", 'members[0]: there is no user "admn" (did you'),
    ("roles:\n  Boss: {users: [admin]}", "line 2: roles.Boss: there is no such role: use Cluster"),
    ("roles:\n  clusteradmin: {}", "line 2: roles.clusteradmin: somebody must hold this role"),
    ("roles:\n  Viewer: {groups: [red]}", 'roles.Viewer.groups[0]: there is no group "red"'),
    (
        "workspaces:\n  Lab:\n    roles:\n      ClusterAdmin: {users: [admin]}",
        "line 4: workspaces.Lab.roles.ClusterAdmin: this role has permissions of the whole cluster",
    ),
    ("resource_pools:\n  gpus: {workspaces: []}", 'no such pool (did you mean "gpu"?): add it'),
    (
        "resource_pools:\n  gpu:\n    workspaces:\n    - Lab",
        "line 4: resource_pools.gpu.workspaces[0]",
    ),
    (
        "workspaces:\n  Lab: {default_aux_pool: gp}",
        'default_aux_pool: there is no resource pool "gp"',
    ),
    ("templates:\n  t: {workspace: Lab, config: {}}", 'there is no workspace "Lab": write it'),
]


@pytest.mark.parametrize(("text", "said"), UNKNOWN)
def test_what_is_named_and_not_there_is_named_with_its_line(text: str, said: str) -> None:
    file, source = read_text(text, "people.yaml")
    with pytest.raises(InvalidConfig) as refused:
        source.refuse(problems(file, FIRST))
    assert said in refused.value.message
