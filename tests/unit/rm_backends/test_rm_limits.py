"""What a pool refuses at submission, and what it says would fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_backends.limits import PoolShape, fits, refusal
from windlass.base.errors import Unsatisfiable

FOUR_EIGHTS = PoolShape(pool="gpu", sizes={8: 4}, max_agents=4)
MIXED = PoolShape(pool="gpu", sizes={4: 1, 8: 1}, max_agents=2)
MIXED_HETEROGENEOUS = PoolShape(pool="gpu", sizes={4: 1, 8: 1}, max_agents=2, heterogeneous=True)
CATALOGUE = PoolShape(pool="cloud", sizes={1: 3, 8: 3}, max_agents=3, launches=True)
NO_AGENT = PoolShape(pool="gpu")
NO_INSTANCES = PoolShape(pool="cloud", launches=True)
ONLY_AUX = PoolShape(pool="aux", max_agents=2)
NO_AUX = PoolShape(pool="gpu", sizes={8: 4}, max_agents=4, takes_aux=False)


@pytest.mark.parametrize(
    ("shape", "slots", "single"),
    [
        (FOUR_EIGHTS, 0, True),
        (FOUR_EIGHTS, 8, True),
        (FOUR_EIGHTS, 5, False),
        (FOUR_EIGHTS, 24, False),
        (FOUR_EIGHTS, 32, False),
        (MIXED_HETEROGENEOUS, 12, False),
        (CATALOGUE, 3, False),
        (CATALOGUE, 24, False),
        (ONLY_AUX, 0, True),
    ],
)
def test_what_fits_is_accepted(shape: PoolShape, slots: int, single: bool) -> None:
    assert refusal(shape, slots, single_agent=single) is None


@pytest.mark.parametrize(
    ("shape", "slots", "single", "message"),
    [
        (
            NO_AUX,
            0,
            True,
            "Resource pool 'gpu' takes no tasks without slots (max_aux_containers_per_agent is 0): "
            "request a slot, or name another pool in resources.resource_pool",
        ),
        (
            FOUR_EIGHTS,
            40,
            False,
            "Requested 40 slots; the maximum of pool 'gpu' is 32 "
            "(4 agents of 8 slots): the nearest size that fits is 32",
        ),
        (
            FOUR_EIGHTS,
            12,
            False,
            "Requested 12 slots; in pool 'gpu' they do not fill whole agents of equal "
            "size (4 agents of 8 slots), as work on more than one agent must: "
            "the nearest sizes that fit are 8 and 16",
        ),
        (
            FOUR_EIGHTS,
            9,
            True,
            "Requested 9 slots on one agent; the largest agent of pool 'gpu' has 8: "
            "the nearest size that fits is 8",
        ),
        (
            MIXED,
            12,
            False,
            "Requested 12 slots; in pool 'gpu' they do not fill whole agents of equal "
            "size (1 agent of 8 slots, 1 agent of 4 slots), as work on more than one agent must: "
            "the nearest size that fits is 8",
        ),
        (
            MIXED_HETEROGENEOUS,
            10,
            False,
            "Requested 10 slots; in pool 'gpu' they do not fill whole agents "
            "(1 agent of 8 slots, 1 agent of 4 slots), as work on more than one agent must: "
            "the nearest sizes that fit are 8 and 12",
        ),
        (
            CATALOGUE,
            25,
            False,
            "Requested 25 slots; the maximum of pool 'cloud' is 24 "
            "(at most 3 agents of 8 or 1 slots): the nearest size that fits is 24",
        ),
        (
            NO_AGENT,
            0,
            True,
            "resource pool 'gpu' has no slots, because no agent that may take this has ever "
            "connected to it: start one with `windlass agent run --pool gpu`, or use another pool",
        ),
        (
            NO_INSTANCES,
            1,
            False,
            "resource pool 'cloud' may not have any instance: raise its max_instances, "
            "or use another pool",
        ),
        (
            ONLY_AUX,
            1,
            False,
            "resource pool 'aux' has no slots: request 0 slots, or use another pool",
        ),
    ],
)
def test_what_never_fits_is_refused_with_a_way_out(
    shape: PoolShape, slots: int, single: bool, message: str
) -> None:
    too_much = refusal(shape, slots, single_agent=single)
    assert too_much is not None
    assert Unsatisfiable(too_much.why, nearest=too_much.nearest).message == message


sizes = st.dictionaries(st.integers(1, 12), st.integers(1, 5), min_size=1, max_size=3)


@given(sizes=sizes, slots=st.integers(1, 200), single=st.booleans(), mixed=st.booleans())
def test_every_size_that_a_refusal_names_fits_and_is_the_nearest(
    sizes: dict[int, int], slots: int, single: bool, mixed: bool
) -> None:
    shape = PoolShape(pool="p", sizes=sizes, max_agents=sum(sizes.values()), heterogeneous=mixed)
    too_much = refusal(shape, slots, single_agent=single)
    good = {n for n in range(1, shape.total + 1) if fits(shape, n, single_agent=single)}
    assert (too_much is None) == (slots in good)
    if too_much is not None:
        named = set(too_much.nearest)
        below = {n for n in good if n < slots}
        above = {n for n in good if n > slots}
        assert named == ({max(below)} if below else set()) | ({min(above)} if above else set())


def test_an_absurd_size_is_refused_without_counting_to_it() -> None:
    assert "is 32 (" in str(refusal(FOUR_EIGHTS, 10**15, single_agent=False))
