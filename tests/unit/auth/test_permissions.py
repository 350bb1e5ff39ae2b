"""The rules as a table, and what must hold of them whatever the table says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.auth.actions import CLUSTER, Action, Target
from master.auth.permissions import RULES, Users, allowed, refusal
from master.auth.principal import Principal

ADMIN = Principal(user_id=1, name="admin", admin=True)
OWNER = Principal(user_id=2, name="owner", admin=False)
OTHER = Principal(user_id=3, name="other", admin=False)
TASK = Principal(
    user_id=2, name="owner", admin=False, allocation_id="7.a.2", task_id="7.a", experiment_id=7
)
ADMINS_TASK = Principal(
    user_id=1, name="admin", admin=True, allocation_id="8.b.1", task_id="8.b", experiment_id=8
)
COMMAND = Principal(user_id=2, name="owner", admin=False, allocation_id="c.1", task_id="c")
EXPERIMENT = Target(kind="experiment", id=7, owner_id=2, workspace_id=1, experiment_id=7)
TRIAL = Target(kind="trial", id=70, owner_id=2, workspace_id=1, experiment_id=7, task_id="7.a")
SIBLING = Target(kind="trial", id=71, owner_id=2, workspace_id=1, experiment_id=7, task_id="7.z")
RUN = Target(
    kind="allocation", id="7.a.2", owner_id=2, experiment_id=7, task_id="7.a", allocation_id="7.a.2"
)
EARLIER_RUN = Target(
    kind="allocation", id="7.a.1", owner_id=2, experiment_id=7, task_id="7.a", allocation_id="7.a.1"
)
JOB = Target(kind="job", id="j", owner_id=2, workspace_id=1)
EVERYBODY = (ADMIN, OWNER, OTHER, TASK, ADMINS_TASK, COMMAND)

TABLE: list[tuple[Action, Target, tuple[Principal, ...]]] = [
    (Action.VIEW_EXPERIMENTS, EXPERIMENT, EVERYBODY),
    (Action.VIEW_ARTIFACTS, TRIAL, EVERYBODY),
    (Action.VIEW_CLUSTER, CLUSTER, EVERYBODY),
    (Action.VIEW_MASTER_CONFIG, CLUSTER, (ADMIN,)),
    (Action.CREATE_EXPERIMENT, CLUSTER, (ADMIN, OWNER, OTHER)),
    (Action.PREVIEW_EXPERIMENT, CLUSTER, (ADMIN, OWNER, OTHER)),
    (Action.CREATE_INTERACTIVE, CLUSTER, (ADMIN, OWNER, OTHER)),
    (Action.UPDATE_EXPERIMENT, EXPERIMENT, (ADMIN, OWNER)),
    (Action.UPDATE_METADATA, EXPERIMENT, (ADMIN, OWNER)),
    (Action.DELETE_EXPERIMENT, EXPERIMENT, (ADMIN, OWNER)),
    (Action.END_EXPERIMENT, EXPERIMENT, (ADMIN, OWNER, TASK)),
    (Action.END_EXPERIMENT, SIBLING, (ADMIN, OWNER, TASK)),
    (Action.REPORT, TRIAL, (ADMIN, OWNER, TASK)),
    (Action.REPORT, SIBLING, (ADMIN, OWNER)),
    (Action.REPORT, RUN, (ADMIN, OWNER, TASK)),
    (Action.REPORT, EARLIER_RUN, (ADMIN, OWNER)),
    (Action.UPDATE_JOB, JOB, (ADMIN, OWNER)),
    (Action.UPDATE_AGENTS, CLUSTER, (ADMIN,)),
    (Action.UPDATE_USER, Target(kind="user", id=2, owner_id=2), (ADMIN, OWNER)),
    (Action.ADMINISTRATE_USERS, CLUSTER, (ADMIN,)),
    (Action.ADMINISTRATE_CLUSTER, CLUSTER, (ADMIN,)),
]


@pytest.mark.parametrize(("action", "target", "permitted"), TABLE, ids=lambda v: str(v)[:40])
def test_who_may_do_what(action: Action, target: Target, permitted: tuple[Principal, ...]) -> None:
    assert tuple(who for who in EVERYBODY if allowed(who, action, target)) == permitted


ids = st.sampled_from([None, "7.a", "7.z", "c"])
principals = st.builds(
    Principal,
    user_id=st.integers(1, 3),
    name=st.just("x"),
    admin=st.booleans(),
    allocation_id=st.sampled_from([None, "7.a.1", "7.a.2"]),
    task_id=ids,
    experiment_id=st.sampled_from([None, 7, 8]),
)
target_strategy = st.builds(
    Target,
    kind=st.just("thing"),
    id=st.just(1),
    owner_id=st.sampled_from([None, 1, 2, 3]),
    workspace_id=st.sampled_from([None, 1]),
    experiment_id=st.sampled_from([None, 7, 8]),
    task_id=ids,
    allocation_id=st.sampled_from([None, "7.a.1", "7.a.2"]),
)


@given(principals, st.sampled_from(Action), target_strategy)
def test_what_holds_of_all_rules(who: Principal, action: Action, target: Target) -> None:
    may = allowed(who, action, target)
    reads = action.value.startswith("view") and action is not Action.VIEW_MASTER_CONFIG
    if who.task_id is None:
        assert may or not who.admin, "administrators may do everything"
        if may and not who.admin and RULES[action].users is Users.OWNER:
            assert target.owner_id == who.user_id
    elif may and not reads and action is not Action.USE_SESSION:
        own_task = target.task_id == who.task_id or target.allocation_id == who.allocation_id
        own_experiment = target.experiment_id == who.experiment_id is not None
        assert own_task or own_experiment, "a task changes what is not its own"
    if not may:
        assert refusal(who, action, target, "somebody")
