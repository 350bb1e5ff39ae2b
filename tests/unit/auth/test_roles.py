"""Roles and permissions are the published ones, and what follows from holding a role where."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.auth.actions import Action, Target
from master.auth.permissions import RULES, allowed, denial, visibility
from master.auth.principal import Principal
from master.auth.role_rules import NEEDS, RoleRules
from master.core.roles.access import Access, Grant, access_of
from master.core.roles.catalogue import FIXED_ROLES, Role, RoleId, roles
from master.core.roles.groups import Assignment, Directory, Group, group_name, summary
from master.core.roles.permissions import Permission
from tests.examples import examples
from tests.unit.auth.published_permissions import HOLDERS, ROLES, ROWS
from windlass.base.errors import InvalidArgument, NotFound, PermissionDenied

HERE, THERE = 7, 8
_BY_ID = roles()


def test_permissions_are_those_that_clients_know() -> None:
    shown = [(int(p), p.name, p.text, p.is_cluster_only) for p in Permission]
    assert shown == [row[:4] for row in ROWS]


@pytest.mark.parametrize("letter", ROLES)
def test_each_role_has_its_permissions(letter: str) -> None:
    id_, name = ROLES[letter]
    role = _BY_ID[id_]
    held = {row[1] for row in ROWS if letter == "A" or letter in row[4]}
    assert (role.name, {p.name for p in role.permissions}) == (name, held)
    assert role.is_cluster_only == any(row[3] for row in ROWS if row[1] in held)


def test_there_are_ten_roles() -> None:
    assert [(int(r.id), r.name) for r in FIXED_ROLES] == list(ROLES.values())


def test_a_role_in_a_workspace_holds_there_and_one_in_the_cluster_everywhere() -> None:
    access = access_of([Grant(RoleId.EDITOR, HERE), Grant(RoleId.VIEWER)], _BY_ID)
    assert access.allows(Permission.CREATE_EXPERIMENT, HERE)
    assert not access.allows(Permission.CREATE_EXPERIMENT, THERE)
    assert not access.allows(Permission.CREATE_EXPERIMENT)
    assert access.allows(Permission.VIEW_EXPERIMENT_METADATA, THERE)
    assert access.where(Permission.CREATE_EXPERIMENT) == {HERE}
    assert access.where(Permission.VIEW_EXPERIMENT_METADATA) is None
    assert access.allows_somewhere(Permission.CREATE_EXPERIMENT)


def test_roles_that_are_gone_or_of_the_cluster_grant_nothing_in_a_workspace() -> None:
    access = access_of([Grant(101, HERE), Grant(RoleId.CLUSTER_ADMIN, HERE)], _BY_ID)
    assert not any(access.allows_somewhere(permission) for permission in Permission)


def test_a_user_holds_the_roles_of_their_groups() -> None:
    own, of_group = Assignment(Grant(4, HERE), user_id=3), Assignment(Grant(5), group_id=2)
    others = [Assignment(Grant(1), user_id=4), Assignment(Grant(1), group_id=9)]
    directory = Directory(
        groups={2: Group(2, "b", frozenset({3})), 9: Group(9, "a")},
        assignments=dict.fromkeys([own, of_group, *others], 0),
    )
    assert directory.of_user(3) == [own, of_group]
    assert directory.in_workspace(HERE) == [own]
    with pytest.raises(NotFound, match="group '1' not found"):
        directory.group(1)


def test_a_summary_has_each_role_once() -> None:
    grants = [Grant(5, 9), Grant(5, 7), Grant(5), Grant(4, 7), Grant(5, 7)]
    assert summary(grants) == {4: (False, (7,)), 5: (True, (7, 9))}


@pytest.mark.parametrize(
    "name",
    ["", "x" * 256, " a", "a\n", "\0", "xDeterminedPersonalGroup7", "determinedpersonalgroup"],
)
def test_names_that_no_group_may_have(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"name: must|must be printable"):
        group_name(name)


def test_every_action_says_what_it_needs() -> None:
    assert set(NEEDS) == set(Action) == set(RULES)


def _as(access: Access, user_id: int = 3, task: bool = False) -> Principal:
    rules = RoleRules(access)
    if not task:
        return Principal(user_id=user_id, name="x", admin=True, rules=rules)
    return Principal(
        user_id=user_id,
        name="x",
        admin=True,
        rules=rules,
        task_id="7.a",
        allocation_id="7.a.1",
        experiment_id=7,
    )


EXPERIMENT = Target(kind="experiment", id=1, owner_id=3, workspace_id=HERE, experiment_id=1)
COMMAND = Target(kind="task", id="c", owner_id=3, workspace_id=HERE, task_id="c")


def test_what_is_not_seen_is_not_there_and_what_is_forbidden_names_the_permission() -> None:
    reader = _as(access_of([Grant(RoleId.VIEWER, HERE)], _BY_ID))
    assert allowed(reader, Action.VIEW_EXPERIMENTS, EXPERIMENT)
    assert not allowed(reader, Action.DELETE_EXPERIMENT, EXPERIMENT), "not even the owner"
    refused = denial(reader, Action.DELETE_EXPERIMENT, EXPERIMENT)
    assert isinstance(refused, PermissionDenied)
    assert refused.message == (
        "access denied; required permissions: PERMISSION_TYPE_DELETE_EXPERIMENT"
    )
    of_task = denial(reader, Action.REPORT, COMMAND)
    assert of_task.message == "access denied; required permissions: PERMISSION_TYPE_UPDATE_NSC"
    stranger = denial(_as(Access()), Action.DELETE_EXPERIMENT, EXPERIMENT)
    assert isinstance(stranger, NotFound)
    assert stranger.message == NotFound("experiment", 1).message


def test_the_flag_of_administrators_means_nothing() -> None:
    assert not allowed(_as(Access()), Action.UPDATE_AGENTS)
    assert allowed(_as(access_of([Grant(RoleId.CLUSTER_ADMIN)], _BY_ID)), Action.UPDATE_AGENTS)


def test_tasks_act_as_their_owners_and_report_what_is_their_own() -> None:
    own_trial = Target(kind="trial", id=5, workspace_id=HERE, experiment_id=7, task_id="7.a")
    without = _as(Access(), task=True)
    assert allowed(without, Action.REPORT, own_trial)
    assert not allowed(without, Action.VIEW_EXPERIMENTS, EXPERIMENT)
    editor = _as(access_of([Grant(RoleId.EDITOR, HERE)], _BY_ID), task=True)
    assert allowed(editor, Action.VIEW_EXPERIMENTS, EXPERIMENT)
    assert not allowed(editor, Action.UPDATE_EXPERIMENT, EXPERIMENT)


def test_tasks_and_experiments_are_seen_by_their_own_permissions() -> None:
    own = Role(101, "Tasks", frozenset({Permission.VIEW_NSC}))
    access = access_of([Grant(101, THERE), Grant(RoleId.VIEWER, HERE)], {**_BY_ID, own.id: own})
    visible = visibility(_as(access), Action.VIEW_ARTIFACTS)
    assert visible.workspaces == {HERE}
    assert visible.of_interactive.workspaces == {HERE, THERE}
    assert visible.secrets_of == 3
    assert not visible.all_secrets


permissions_ = st.frozensets(st.sampled_from(Permission), max_size=12)
held = st.lists(st.tuples(st.sampled_from([None, HERE, THERE]), permissions_), max_size=4)
targets = st.builds(
    Target,
    kind=st.sampled_from(
        [
            *("cluster", "anywhere", "experiment", "trial", "task", "workspace"),
            *("notebook", "template", "tensorboard"),
        ]
    ),
    shows=st.none() | st.frozensets(st.sampled_from([HERE, THERE])),
    id=st.just(1),
    owner_id=st.sampled_from([None, 3, 4]),
    workspace_id=st.sampled_from([None, HERE, THERE]),
    experiment_id=st.sampled_from([None, 7, 8]),
    task_id=st.sampled_from([None, "7.a"]),
)


HELD_ANYWHERE = frozenset(p for p in Permission if not p.is_cluster_only)


def _access(given_: Sequence[tuple[int | None, frozenset[Permission]]]) -> Access:
    """Roles that can be assigned where they are."""
    made = [
        Role(100 + i, str(i), held if where is None else held & HELD_ANYWHERE)
        for i, (where, held) in enumerate(given_)
    ]
    grants = [Grant(role.id, where) for role, (where, _) in zip(made, given_, strict=True)]
    return access_of(grants, roles(made))


@settings(max_examples=examples(300))
@given(held, st.integers(0, 3), st.sampled_from(Permission), targets, st.booleans())
def test_a_permission_less_never_allows_more(
    more: list[tuple[int | None, frozenset[Permission]]],
    index: int,
    taken: Permission,
    target: Target,
    task: bool,
) -> None:
    less = [(w, p - {taken} if i == index else p) for i, (w, p) in enumerate(more)]
    with_, without = _as(_access(more), task=task), _as(_access(less), task=task)
    for action in Action:
        assert allowed(with_, action, target) or not allowed(without, action, target)
        seen, still = visibility(with_, action), visibility(without, action)
        for one, other in ((seen, still), (seen.of_interactive, still.of_interactive)):
            if one.workspaces is not None:
                assert other.workspaces is not None
                assert other.workspaces <= one.workspaces
            assert one.all_secrets or not other.all_secrets
        boards, fewer = seen.of_interactive.tensorboards, still.of_interactive.tensorboards
        assert (boards is None) == (fewer is None)
        if boards is not None and fewer is not None:
            for one_, other_ in (
                (boards.workspaces, fewer.workspaces),
                (boards.experiments, fewer.experiments),
            ):
                assert one_ is None or (other_ is not None and other_ <= one_)


def test_all_permissions_are_of_some_role_or_of_administrators_alone() -> None:
    assert {name for name, letters in HOLDERS.items() if not letters} == {
        p.name for p in Permission if not any(p in r.permissions for r in FIXED_ROLES[1:])
    }
