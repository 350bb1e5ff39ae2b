"""Config policies: what is read, what invariants force, what constraints refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from master.core.expconf.kinds import CommandConfig, NotebookConfig
from master.core.expconf.policies import (
    Policies,
    ScopedPolicy,
    WorkloadType,
    policy_of,
    read_policy,
)
from master.core.jobs import JobChange, SetMaxSlots, SetPlace, SetPool, SetPriority, SetWeight
from windlass.base.errors import InvalidArgument, InvalidConfig

EXPERIMENT, TASK = WorkloadType.EXPERIMENT, WorkloadType.TASK
LIMITS: dict[str, Any] = {"resources": {"max_slots": 8}, "priority_limit": 30}


def policies(
    cluster: dict[str, Any] | None = None,
    workspace: dict[str, Any] | None = None,
    workload: WorkloadType = EXPERIMENT,
) -> Policies:
    given = (("workspace lab", workspace), ("the cluster", cluster))
    layers = [ScopedPolicy(scope, policy_of(one)) for scope, one in given if one is not None]
    return Policies(workload, layers)


def resources(**values: Any) -> dict[str, Any]:
    return {"invariant_config": {"resources": values}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no specified config policies"),
        ("{}", "no specified config policies"),
        ("[1]", "<policy>: expected object, but got array"),
        ("a: [", "<policy>: malformed YAML"),
        (
            "constraint: {}",
            'additionalProperties "constraint" not allowed; did you mean "constraints"?',
        ),
        (
            "constraints: {priority_limit: 100}",
            "<policy>.constraints.priority_limit: must be <= 99",
        ),
        ("constraints: {resources: {max_slots: -1}}", "max_slots: must be >= 0"),
        ("constraints: {resources: {slots: 1}}", 'additionalProperties "slots" not allowed'),
        ("invariant_config: {resource: {}}", 'additionalProperties "resource" not allowed'),
        ("invariant_config: {resources: {priority: x}}", "<config>.resources.priority"),
    ],
)
@pytest.mark.parametrize("workload", WorkloadType)
def test_what_no_policy_can_be_is_told(text: str, problem: str, workload: WorkloadType) -> None:
    with pytest.raises((InvalidArgument, InvalidConfig)) as refused:
        read_policy(text, workload)
    assert problem in str(refused.value)


def test_a_policy_may_be_yaml_or_json_and_is_kept_as_written() -> None:
    written = {"invariant_config": {"environment": {"image": "a:1"}}, "constraints": LIMITS}
    for text in (yaml.safe_dump(written), json.dumps(written)):
        assert read_policy(text, EXPERIMENT).document == written


def test_each_workload_has_its_own_keys() -> None:
    with pytest.raises(InvalidConfig, match="slots_per_trial"):
        read_policy("invariant_config: {resources: {slots_per_trial: 1}}", TASK)
    with pytest.raises(InvalidConfig, match="slots"):
        read_policy("invariant_config: {resources: {slots: 1}}", EXPERIMENT)


def test_the_cluster_wins_over_the_workspace_and_both_over_the_user() -> None:
    both = policies(resources(priority=50), resources(priority=60, weight=2.0))
    forced = both.over({"resources": {"priority": 10, "weight": 3.0, "slots_per_trial": 4}})
    assert forced["resources"] == {"priority": 50, "weight": 2.0, "slots_per_trial": 4}


def test_lists_that_append_gain_entries() -> None:
    mount = {"host_path": "/data", "container_path": "/data"}
    own = {"host_path": "/home", "container_path": "/home"}
    forced = policies({"invariant_config": {"bind_mounts": [mount]}}).over({"bind_mounts": [own]})
    assert [one["host_path"] for one in forced["bind_mounts"]] == ["/data", "/home"]


def test_the_submitter_reads_what_was_set_and_by_whom() -> None:
    both = policies(resources(priority=50), resources(weight=2.0))
    told = list(both.told({"resources": {"priority": 10}}))
    assert told == [
        "<config>.resources.weight is 2.0: set by the config policy of workspace lab",
        "<config>.resources.priority is 50 instead of 10: set by the config policy of the cluster",
    ]
    assert list(both.told({"resources": {"priority": 50, "weight": 2.0}})) == []


def test_no_secret_of_a_policy_is_told() -> None:
    variables = {"environment_variables": {"cpu": ["KEY=s3cr3t"], "cuda": [], "rocm": []}}
    policy = policies({"invariant_config": {"environment": variables}})
    told = "".join(policy.told({}))
    assert "KEY" in told
    assert "s3cr3t" not in told


def test_a_search_without_a_bound_gets_the_policys() -> None:
    bounded = policies({"constraints": LIMITS})
    assert bounded.over({})["resources"]["max_slots"] == 8
    assert bounded.over({"resources": {"max_slots": 2}})["resources"]["max_slots"] == 2
    assert list(bounded.told({})) == [
        "<config>.resources.max_slots is 8: set by the config policy of the cluster"
    ]
    assert policies({"constraints": LIMITS}, workload=TASK).over({}) == {}


def test_the_default_priority_is_within_the_limit() -> None:
    bounded = policies({"constraints": {"priority_limit": 60}})
    assert [bounded.default_priority(one) for one in (42, 60, 70)] == [60, 60, 70]
    assert policies().default_priority(42) == 42


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"slots": 8, "max_slots": 8, "priority": 30}, ""),
        (
            {"slots": 9, "max_slots": None, "priority": None},
            r"resources.slots \[9\] exceeds .* \[8\]",
        ),
        ({"slots": 1, "max_slots": 9, "priority": None}, r"resources.slots \[9\] exceeds .* \[8\]"),
        ({"slots": 1, "max_slots": 1, "priority": 29}, r"priority \[29\] exceeds .* \[30\]"),
    ],
)
def test_constraints(asked: dict[str, Any], problem: str) -> None:
    bounded = policies({"constraints": LIMITS})
    if not problem:
        bounded.require(**asked)
        return
    with pytest.raises(InvalidArgument, match=problem) as refused:
        bounded.require(**asked)
    assert "the config policy of the cluster" in refused.value.message


def test_constraints_count_field_by_field() -> None:
    both = policies(
        {"constraints": {"priority_limit": 30}},
        {"constraints": {"resources": {"max_slots": 4}, "priority_limit": 60}},
    )
    both.require(slots=4, max_slots=None, priority=30)
    with pytest.raises(InvalidArgument, match="workspace lab"):
        both.require(slots=5, max_slots=None, priority=30)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (SetPriority(40), ""),
        (SetPriority(41), "priority cannot be modified"),
        (SetPlace(1, 41), "priority cannot be modified"),  # type: ignore[arg-type]
        (SetPlace(1, None), ""),  # type: ignore[arg-type]
        (SetWeight(2), "weight cannot be modified"),
        (SetMaxSlots(3), "max slots is already set in an invariant config policy"),
        (SetPool("other"), "the resource pool cannot be modified"),
        (SetPool("gpus"), ""),
    ],
)
def test_what_an_invariant_fixes_is_not_changed_later(change: JobChange, problem: str) -> None:
    fixed = policies(resources(priority=40, weight=1.0, max_slots=4, resource_pool="gpus"))
    if not problem:
        fixed.require_change(change)
        return
    with pytest.raises(InvalidArgument, match=f"{problem}.*the config policy of the cluster sets"):
        fixed.require_change(change)


@pytest.mark.parametrize("change", [SetPriority(1), SetMaxSlots(9), SetMaxSlots(None)])
def test_later_changes_stay_within_constraints(change: JobChange) -> None:
    bounded = policies({"constraints": LIMITS})
    with pytest.raises(InvalidArgument, match="the config policy of the cluster"):
        bounded.require_change(change)
    policies().require_change(change)


def test_keep_counts_that_are_fixed() -> None:
    fixed = policies({"invariant_config": {"checkpoint_storage": {"save_trial_best": 2}}})
    fixed.require_keep_counts({"save_trial_best": 2, "save_trial_latest": 5})
    with pytest.raises(InvalidArgument, match="save_trial_best cannot be modified"):
        fixed.require_keep_counts({"save_trial_best": 3})


def test_invariants_that_break_constraints() -> None:
    own = policies({**resources(max_slots=9, priority=29), "constraints": LIMITS})
    assert len(list(own.problems())) == 2
    across = policies({"constraints": LIMITS}, resources(slots_per_trial=9))
    assert "of the cluster, 8" in next(across.problems())
    assert (
        list(policies({**resources(max_slots=8, priority=30), "constraints": LIMITS}).problems())
        == []
    )


def test_tasks_get_the_keys_that_their_kind_knows() -> None:
    timeout = policies({"invariant_config": {"idle_timeout": "1h"}}, workload=TASK)
    assert "idle_timeout" in timeout.known_to(NotebookConfig).over({})
    assert "idle_timeout" in timeout.known_to(CommandConfig).over({})
