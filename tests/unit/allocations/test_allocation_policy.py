"""Which pool what is submitted goes to."""

from __future__ import annotations

import pytest

from master.allocations.policy import ClusterPolicy, WorkspaceDefaults, lost_default
from master.core.expconf import ClusterDefaults
from windlass.base.errors import InvalidConfig

POOLS = {name: ClusterDefaults() for name in ("gpu", "aux")}


def test_who_names_no_pool_gets_the_default_of_its_kind() -> None:
    policy = ClusterPolicy(defaults=POOLS, default_compute_pool="gpu", default_aux_pool="aux")
    assert policy.pool_of("", aux=False, what="w") == "gpu"
    assert policy.pool_of("", aux=True, what="w") == "aux"
    assert policy.pool_of("aux", aux=False, what="w") == "aux"


@pytest.mark.parametrize(
    ("wanted", "aux", "problem"),
    [
        ("", False, "must be set: there is no default pool for work with slots"),
        ("", True, "must be set: there is no default pool for work without slots"),
        ("tpu", False, 'there is no pool "tpu"'),
    ],
)
def test_without_a_default_one_must_be_named(wanted: str, aux: bool, problem: str) -> None:
    policy = ClusterPolicy(defaults=POOLS, default_compute_pool=None, default_aux_pool=None)
    with pytest.raises(InvalidConfig) as caught:
        policy.pool_of(wanted, aux=aux, what="w")
    (line,) = caught.value.problems
    assert line == f"<config>.resources.resource_pool: {problem}; use one of aux, gpu"


LAB = WorkspaceDefaults(
    workspace_id=7, usable=frozenset({"gpu", "aux"}), compute_pool="aux", aux_pool="tpu"
)


def test_a_workspace_goes_before_the_cluster() -> None:
    policy = ClusterPolicy(defaults=POOLS, default_compute_pool="gpu", default_aux_pool="gpu")
    assert policy.pool_of("", aux=False, what="w", workspace=LAB) == "aux"
    assert policy.pool_of("gpu", aux=False, what="w", workspace=LAB) == "gpu"


def test_what_a_workspace_may_not_use_any_more_gives_way_and_is_told() -> None:
    policy = ClusterPolicy(defaults=POOLS, default_compute_pool="gpu", default_aux_pool="gpu")
    assert policy.pool_of("", aux=True, what="w", workspace=LAB) == "gpu"
    (line,) = lost_default("", "gpu", aux=True, workspace=LAB)
    assert line == (
        "resources.resource_pool: 'tpu', the default auxiliary pool of workspace 7, is not there any more for this "
        "workspace: 'gpu' is used"
    )
    assert not list(lost_default("gpu", "gpu", aux=True, workspace=LAB))
    assert not list(lost_default("", "aux", aux=False, workspace=LAB))


def test_a_hidden_pool_and_an_absent_one_are_refused_in_the_same_words() -> None:
    policy = ClusterPolicy(defaults={**POOLS, "hidden": ClusterDefaults()})
    said = []
    for name in ("hidden", "absent"):
        with pytest.raises(InvalidConfig) as caught:
            policy.pool_of(name, aux=False, what="w", workspace=LAB)
        said.append(caught.value.problems[0].replace(name, "it"))
    assert (
        said
        == [
            '<config>.resources.resource_pool: there is no pool "it" for workspace 7; use one of aux, gpu'
        ]
        * 2
    )
