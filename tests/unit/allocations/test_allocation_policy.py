"""Which pool what is submitted goes to."""

from __future__ import annotations

import pytest

from master.allocations.policy import ClusterPolicy
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
