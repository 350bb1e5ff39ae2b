"""The random stream is numpy's legacy one, draw by draw, and survives being written down."""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.searcher.rng import MAX_SEED, Draws, RngState
from master.core.searcher.sampling import TrialFactory
from master.core.searcher.space import parse_space
from tests.examples import examples
from windlass.base.errors import InvalidArgument

seeds = st.integers(0, MAX_SEED)
limits = st.one_of(
    st.integers(1, 300),
    st.integers(2, 2**32 + 2),
    st.integers(2, 2**63 - 1),
    st.sampled_from([2**31, 2**32, 2**32 - 1, 2**32 + 1, 2**62]),
)


def state_of(numpy_state: np.random.RandomState) -> RngState:
    state: Any = numpy_state.get_state(legacy=True)
    return RngState(key=tuple(int(w) for w in state[1]), pos=int(state[2]))


@given(seed=seeds)
def test_seeding_is_numpys(seed: int) -> None:
    assert RngState.seeded(seed) == state_of(np.random.RandomState(seed))


@settings(max_examples=examples(60))
@given(seed=seeds, kinds=st.lists(st.sampled_from(["unit", "uniform", "bytes", "below"])), n=limits)
def test_every_draw_is_numpys(seed: int, kinds: list[str], n: int) -> None:
    theirs, ours = np.random.RandomState(seed), Draws(RngState.seeded(seed))
    for kind in kinds:
        match kind:
            case "unit":
                assert ours.unit() == theirs.random_sample()
            case "uniform":
                assert ours.uniform(-3.5, 12.25) == theirs.uniform(-3.5, 12.25)
            case "bytes":
                assert ours.bytes16() == theirs.bytes(16)
            case _:
                assert ours.below(n) == int(theirs.randint(0, n, dtype=np.int64))
    assert ours.state() == state_of(theirs)


def test_64_bits_are_two_outputs_high_word_first() -> None:
    theirs, ours = np.random.RandomState(7), Draws(RngState.seeded(7))
    high, low = (int(w) for w in theirs.randint(0, 2**32, size=2, dtype=np.uint32))
    assert ours.bits64() == high << 32 | low


@given(seed=seeds, before=st.integers(0, 1300), after=st.integers(1, 50))
@settings(max_examples=examples(30))
def test_a_stored_state_goes_on_identically(seed: int, before: int, after: int) -> None:
    draws = Draws(RngState.seeded(seed))
    for _ in range(before):
        draws.bits32()
    stored = json.loads(json.dumps(draws.state().to_json()))
    restored = Draws(RngState.from_json(stored))
    assert [restored.bits32() for _ in range(after)] == [draws.bits32() for _ in range(after)]


def test_a_step_that_draws_nothing_keeps_the_very_state() -> None:
    state = RngState.seeded(1)
    draws = Draws(state)
    assert draws.below(1) == 0
    assert draws.state() is state


def test_drawing_leaves_the_given_state_alone() -> None:
    state = RngState.seeded(1)
    first = Draws(state).bits32()
    assert Draws(state).bits32() == first


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_out_of_range_are_refused(seed: int) -> None:
    with pytest.raises(InvalidArgument, match="experiment_seed"):
        RngState.seeded(seed)


@given(seed=seeds)
@settings(max_examples=examples(50))
def test_a_trial_draws_hyperparameters_then_identity_then_seed(seed: int) -> None:
    space = parse_space(
        {
            "z": {"type": "double", "minval": -1, "maxval": 2},
            "a": {"type": "log", "base": 10, "minval": -5, "maxval": -1},
            "m": {
                "y": {"type": "int", "minval": -3, "maxval": 9},
                "c": {"type": "const", "val": 1},
            },
            "Z": {"type": "categorical", "vals": ["p", "q", "r"]},
        }
    )
    trials = TrialFactory(RngState.seeded(seed), space)
    theirs = np.random.RandomState(seed)
    for _ in range(3):
        create = trials.sample()
        expected = {
            "Z": ["p", "q", "r"][int(theirs.randint(0, 3, dtype=np.int64))],
            "a": 10.0 ** theirs.uniform(-5, -1),
            "m": {"c": 1, "y": -3 + int(theirs.randint(0, 13, dtype=np.int64))},
            "z": theirs.uniform(-1, 2),
        }
        assert create.hparams == expected
        assert list(create.hparams) == ["Z", "a", "m", "z"]
        identity = uuid.UUID(bytes=theirs.bytes(16), version=4)
        assert create.request_id == str(identity)
        assert (identity.version, identity.variant) == (4, uuid.RFC_4122)
        assert create.trial_seed == int(theirs.randint(0, 2**31, dtype=np.int64))
    assert trials.rng_state() == state_of(theirs)
