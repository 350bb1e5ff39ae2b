"""What is asked back: enough, no more, the least valuable, never below a job's share, and nothing when in vain."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from master.core.scheduler.fitting import REAL, FreeSlots, RequestShape
from master.core.scheduler.ledger import JobAccount
from master.core.scheduler.types import Job, Placement, Request, Running, SchedulerSettings
from master.core.scheduler.victims import Preemptibility, VictimSearch, spare_slots

NOW = 1000.0


def run(
    name: str,
    placement: Placement,
    *,
    started: float = 0.0,
    saved: float | None = None,
    preemptible: bool = True,
    releasing: bool = False,
) -> Running:
    return Running(
        request=Request(
            id=name,
            job_id=name[0],
            slots=sum(placement.values()),
            requested=0.0,
            preemptible=preemptible,
        ),
        placement=placement,
        started=started,
        last_checkpoint=saved,
        releasing=releasing,
    )


def search(
    sizes: dict[str, int],
    running: list[Running],
    spare: dict[str, int],
    *,
    mixed_sizes: bool = False,
) -> tuple[VictimSearch, FreeSlots]:
    used = {
        name: sum(one.placement.get(name, 0) for one in running if not one.releasing)
        for name in sizes
    }
    future = FreeSlots(
        SchedulerSettings(allow_heterogeneous_fits=mixed_sizes),
        [(name, size, size - used[name], REAL) for name, size in sizes.items()],
    )
    standings = {job: Preemptibility(slots) for job, slots in spare.items()}
    return VictimSearch(future, running, standings, now=NOW, mixed_sizes=mixed_sizes), future


def want(slots: int, *, single: bool = False, blocked: str = "") -> RequestShape:
    return RequestShape(slots, single, frozenset(blocked.split()))


@pytest.mark.parametrize(
    ("running", "spare", "wanted", "victims"),
    [
        pytest.param(
            [run("a1", {"n": 1}, started=5.0), run("a2", {"n": 1}, started=9.0)],
            {"a": 2},
            want(1),
            {"a2"},
            id="the latest started",
        ),
        pytest.param(
            [run("a1", {"n": 1}, started=5.0, saved=999.0), run("a2", {"n": 1}, started=9.0)],
            {"a": 2},
            want(1),
            {"a1"},
            id="the latest saved",
        ),
        pytest.param(
            [run("a1", {"n": 4}, started=999.0), run("a2", {"n": 1}, started=500.0)],
            {"a": 5},
            want(1),
            {"a1"},
            id="on one agent by value per slot",
        ),
        pytest.param(
            [
                run("a1", {"n": 8}, started=900.0),
                run("a2", {"m": 1}, started=800.0),
                run("c1", {"m": 7}, preemptible=False),
            ],
            {"a": 9},
            want(1),
            {"a2"},
            id="among agents by what is lost in all",
        ),
        pytest.param(
            [run("a1", {"n": 1}, started=999.0), run("a2", {"n": 7}, started=900.0)],
            {"a": 8},
            want(6),
            {"a2"},
            id="who is not needed stays",
        ),
        pytest.param(
            [run("a1", {"n": 8}, started=999.0), run("b1", {"m": 8}, started=1.0)],
            {"a": 7, "b": 8},
            want(8),
            {"b1"},
            id="nobody falls below the share",
        ),
        pytest.param([run("a1", {"n": 8})], {"a": 0}, want(1), None, id="nobody is above"),
        pytest.param([run("a1", {"n": 8})], {}, want(1), None, id="a job without an account"),
        pytest.param(
            [run("a1", {"n": 8}, preemptible=False)], {"a": 8}, want(1), None, id="not preemptible"
        ),
        pytest.param(
            [run("a1", {"n": 4, "x": 4})], {"a": 8}, want(8), None, id="partly on a closed agent"
        ),
        pytest.param(
            [run("a1", {"n": 8})], {"a": 8}, want(1, blocked="n m"), None, id="blocked agents"
        ),
        pytest.param(
            [run("a1", {"n": 8}), run("a2", {"m": 8})],
            {"a": 16},
            want(16),
            {"a1", "a2"},
            id="whole agents",
        ),
        pytest.param(
            [run("a1", {"n": 8}), run("a2", {"m": 8})],
            {"a": 16},
            want(16, single=True),
            None,
            id="one agent only",
        ),
        pytest.param(
            [run("a1", {"n": 4, "m": 4}), run("b1", {"n": 4}), run("b2", {"m": 4})],
            {"a": 8, "b": 8},
            want(16),
            {"a1", "b1", "b2"},
            id="a gang on both agents is asked once",
        ),
    ],
)
def test_choice(
    running: list[Running], spare: dict[str, int], wanted: RequestShape, victims: set[str] | None
) -> None:
    sizes = {"n": 8, "m": 8}
    filler = [
        run(f"z{name}", {name: 8 - used}, preemptible=False)
        for name in sizes
        if (used := sum(one.placement.get(name, 0) for one in running)) < 8
    ]
    chooser, _ = search(sizes, running + filler, spare)
    found = chooser.clear(wanted)
    assert (found and {one.request.id for one in found.victims}) == victims


def test_what_was_chosen_is_spent() -> None:
    tasks = [run(f"a{i}", {"n": 1}, started=float(i)) for i in range(8)]
    chooser, future = search({"n": 8}, tasks, {"a": 3})
    chosen = [chooser.clear(want(1)) for _ in range(4)]
    assert [one and one.victims[0].request.id for one in chosen] == ["a7", "a6", "a5", None]
    assert future.free_on("n") == 0


def test_a_failed_attempt_leaves_no_trace() -> None:
    """Two of three agents can be cleared with what job a may lose, so 24 fail; 16 still work."""
    tasks = [run(f"a{name}", {name: 8}) for name in ("n", "m", "o")]
    chooser, future = search({"n": 8, "m": 8, "o": 8}, tasks, {"a": 16})
    assert chooser.clear(want(24)) is None
    assert [row[2] for row in future.rows()] == [0, 0, 0]
    found = chooser.clear(want(16))
    assert found is not None
    assert len(found.victims) == 2


def test_agents_of_several_sizes_are_cleared_together() -> None:
    tasks = [run("a1", {"n": 6}), run("a2", {"m": 4}), run("a3", {"o": 8})]
    chooser, _ = search({"n": 6, "m": 4, "o": 8}, tasks, {"a": 18}, mixed_sizes=True)
    found = chooser.clear(want(10))
    assert found is not None
    assert found.placement == {"n": 6, "m": 4}


@pytest.mark.parametrize(
    ("share", "preemptible", "fixed", "spare"),
    [
        pytest.param(8, {1: 8}, 0, 0, id="at its share"),
        pytest.param(6, {1: 8}, 0, 2, id="single slots"),
        pytest.param(7, {4: 2}, 0, 4, id="whole gangs"),
        pytest.param(5, {8: 1}, 0, 8, id="a gang that is too large goes"),
        pytest.param(5, {3: 1, 2: 1, 1: 1}, 0, 1, id="keeps what fits best"),
        pytest.param(2, {1: 3}, 4, 3, id="what must stay stays"),
        pytest.param(0, {}, 4, 0, id="nothing preemptible"),
    ],
)
def test_spare_slots(share: int, preemptible: dict[int, int], fixed: int, spare: int) -> None:
    held = fixed + sum(slots * gangs for slots, gangs in preemptible.items())
    account = JobAccount(
        Job(id="a", submitted=0.0), held=held, fixed=fixed, preemptible=preemptible
    )
    assert spare_slots(account, share) == spare


def ranked(running: list[Running], ranks: dict[str, int]) -> VictimSearch:
    future = FreeSlots(SchedulerSettings(), [("n", 8, 8 - len(running), REAL), ("m", 8, 0, REAL)])
    standings = {job: Preemptibility(inf, rank=rank) for job, rank in ranks.items()}
    return VictimSearch(future, running, standings, now=NOW, mixed_sizes=False)


def test_who_is_last_in_the_queue_loses_first_and_only_to_who_is_before() -> None:
    tasks = [run(f"{job}{i}", {"n": 1}, started=999.0 - ord(job)) for job in "abcd" for i in (1, 2)]
    choose = ranked(tasks, {"a": 1, "b": 2, "c": 3, "d": 4})

    def victims(slots: int, rank: int) -> set[str] | None:
        cleared = choose.clear(want(slots), rank)
        return None if cleared is None else {one.request.id for one in cleared.victims}

    assert victims(3, 0) == {"d1", "d2", "c2"}
    assert victims(2, 1) == {"c1", "b2"}
    assert victims(2, 1) is None
    assert victims(1, 1) == {"b1"}
    assert victims(1, 1) is None


def test_the_agent_whose_victims_are_last_in_the_queue_is_taken() -> None:
    tasks = [run("a1", {"n": 1}, started=999.0), run("b1", {"m": 1}), run("b2", {"m": 7})]
    cleared = ranked(tasks, {"a": 1, "b": 2}).clear(want(8), 0)
    assert cleared is not None
    assert {one.request.id for one in cleared.victims} == {"b1", "b2"}


def test_slots_that_are_closing_do_not_count() -> None:
    closing = replace(run("a1", {"n": 2}, started=9.0), closing={"n": 1})
    useless = replace(run("a2", {"n": 1}, started=99.0), closing={"n": 1})
    plain = run("a3", {"n": 1})
    choose, _ = search({"n": 4}, [closing, useless, plain], {"a": 4})
    cleared = choose.clear(want(2))
    assert cleared is not None
    assert {one.request.id for one in cleared.victims} == {"a1", "a3"}
