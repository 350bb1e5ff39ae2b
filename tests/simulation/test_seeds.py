"""Searches survive whatever a seed throws at them, and end as on a quiet day.

One seed alone: `WINDLASS_SIM_SEED=17 pytest tests/simulation`. All of many: `WINDLASS_SIM_SEEDS=1000`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from master.core.searcher.event_json import action_to_json, event_from_json
from master.core.searcher.search import Search, replay
from tests.simulation.days import quiet_day, run_seed
from tests.simulation.faults import STRIKES
from tests.simulation.scenario import (
    ASHA_TRIALS,
    SEARCH_SEEDS,
    Draw,
    Outcome,
    SearchEnd,
    asha_pool,
)

SEEDS = int(os.environ.get("WINDLASS_SIM_SEEDS", "0"))
USUAL_SEEDS = 100
"""Of these, each one that brings something which those before it do not."""
LONG_S = 5.0
ONE_SEED = os.environ.get("WINDLASS_SIM_SEED")


def seeds() -> Sequence[int]:
    if ONE_SEED is not None:
        return [int(ONE_SEED)]
    return range(SEEDS) if SEEDS else usual_seeds()


def usual_seeds() -> list[int]:
    chosen, met = list[int](), set[tuple[str, bool | str]]()
    for seed in range(USUAL_SEEDS):
        brought = set(brings(seed))
        if not brought <= met:
            chosen.append(seed)
            met |= brought
    return chosen


def brings(seed: int) -> Iterator[tuple[str, bool | str]]:
    """Each kind of fault for short and for long, and for each pool of the second search."""
    for fault in Draw.of(seed).faults:
        yield fault.kind, fault.lasts_s > LONG_S
        yield fault.kind, asha_pool(seed)


def test_the_usual_seeds_bring_every_fault() -> None:
    assert {kind for seed in usual_seeds() for kind, _ in brings(seed)} == set(STRIKES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds())
def test_searches_end_as_on_a_quiet_day(seed: int) -> None:
    quiet = quiet_day(seed)
    try:
        outcome = run_seed(seed)
        plain, asha = outcome.searches
        quiet_plain, quiet_asha = quiet.searches
        assert [search.state for search in outcome.searches] == ["COMPLETED", "COMPLETED"]
        assert outcome.doomed == "CANCELED"
        assert plain.trials == quiet_plain.trials
        assert asks(asha) == asks(quiet_asha)
        for search in outcome.searches:
            assert_replays(search)
    except BaseException as error:
        error.add_note(f"alone: WINDLASS_SIM_SEED={seed} pytest tests/simulation/test_seeds.py")
        raise


def asks(search: SearchEnd) -> list[tuple[str, object]]:
    """Which trials were asked for, in order, with what."""
    return [(trial.request_id, trial.hparams) for trial in search.trials]


def assert_replays(search: SearchEnd) -> None:
    """The stored events give the stored actions."""
    config = search.config
    rule = Search.from_config(
        config["searcher"],
        config["hyperparameters"],
        config["reproducibility"]["experiment_seed"],
    )
    _, answers = replay(rule, [event_from_json(event) for event, _ in search.events])
    assert [[action_to_json(a) for a in actions] for actions in answers] == [
        actions for _, actions in search.events
    ]


def test_a_quiet_day_is_worth_comparing_with() -> None:
    """Otherwise the seeds above would prove little."""
    for seed in range(SEARCH_SEEDS):
        outcome = quiet_day(seed)
        asha = outcome.searches[1]
        assert {trial.state for s in outcome.searches for trial in s.trials} == {"COMPLETED"}
        assert len(asha.trials) >= ASHA_TRIALS
        lengths = {len(trial.metrics) for trial in asha.trials}
        assert len(lengths) > 1, "ASHA stopped nobody early"
        assert outcome.masters == 1
    assert any(
        len(search.trials) > ASHA_TRIALS
        for seed in range(SEARCH_SEEDS)
        for search in quiet_day(seed).searches
    ), "no invalid trial was replaced"


def digest(outcome: Outcome) -> str:
    return hashlib.sha256("\n".join(outcome.trace).encode()).hexdigest()


REPLAYED = 4
"""A seed with several restarts of the master."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_seed_replays_exactly() -> None:
    """In another process, whose hashes of strings are others."""
    code = (
        "from tests.simulation.test_seeds import REPLAYED, digest, run_seed\n"
        "import structlog\n"
        "structlog.configure(processors=[], wrapper_class="
        "structlog.make_filtering_bound_logger(50))\n"
        "print(digest(run_seed(REPLAYED)))"
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[-1]
        for hash_seed in ("1", "2")
    ]
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_seeds_differ() -> None:
    assert digest(run_seed(REPLAYED)) != digest(run_seed(REPLAYED + SEARCH_SEEDS))
