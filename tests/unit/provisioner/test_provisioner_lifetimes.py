"""What machines cost and for whom: the parts of a life add up to it, whatever was placed on it, and however booked."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.fleet.instances import StoppedTime
from provisioner.money.lifetimes import (
    NOBODY,
    Charges,
    CostKind,
    Lifetime,
    Use,
    charges,
    merged,
    settled_until,
)
from provisioner.money.months import DAY_S, by_day, by_month, day_of, month_end, month_of
from tests.unit.provisioner.test_provisioner_fleet import record

K = CostKind
HOUR = 3600.0
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC).timestamp()


def life(**more: float | None) -> Lifetime:
    values = {"start": 0.0, "ready": HOUR} | more
    return Lifetime(instance_id="m", pool="gpu", slots=4, usd_per_hour=8.0, **values)  # type: ignore[arg-type]


def use(job_id: str, slots: int, start: float, end: float | None = None) -> Use:
    return Use(job_id=job_id, slots=slots, start=start, end=end)


def spent(found: Charges) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], float] = {}
    for key, amount in found.items():
        name = (key.job_id, key.kind.value)
        sums[name] = sums.get(name, 0.0) + amount.usd
    return {name: pytest.approx(usd) for name, usd in sums.items()}


def test_holders_pay_for_their_share_and_the_rest_is_idle() -> None:
    uses = [use("a", 2, HOUR, 3 * HOUR), use("b", 1, 2 * HOUR)]
    found = charges(life(), uses, since=0, until=4 * HOUR)
    assert spent(found) == {
        (NOBODY, "boot"): 8.0,
        ("a", "busy"): 8.0,
        ("b", "busy"): 4.0,
        (NOBODY, "idle"): 4.0 + 2.0 + 6.0,
    }


def test_tasks_without_slots_pay_only_for_a_machine_that_is_there_for_them_alone() -> None:
    uses = [use("shell", 0, HOUR), use("notebook", 0, HOUR), use("a", 4, 2 * HOUR, 3 * HOUR)]
    found = charges(life(), uses, since=HOUR, until=4 * HOUR)
    assert spent(found) == {
        ("a", "busy"): 8.0,
        ("shell", "busy"): 8.0,
        ("notebook", "busy"): 8.0,
    }


def test_a_machine_that_never_joined_is_lost_and_one_that_boots_is_not_yet() -> None:
    booting = life(ready=None)
    assert spent(charges(booting, [], since=0, until=HOUR)) == {(NOBODY, "boot"): 8.0}
    failed = life(ready=None, end=HOUR)
    assert spent(charges(failed, [], since=0, until=9 * HOUR)) == {(NOBODY, "lost"): 8.0}


def test_nobody_pays_while_the_agent_was_silent() -> None:
    gone = life(lost=2 * HOUR, end=3 * HOUR)
    found = charges(gone, [use("a", 4, HOUR, 3 * HOUR)], since=0, until=9 * HOUR)
    assert spent(found) == {(NOBODY, "boot"): 8.0, ("a", "busy"): 8.0, (NOBODY, "lost"): 8.0}


def test_slots_that_two_hold_for_a_moment_are_paid_once() -> None:
    found = charges(life(), [use("a", 4, HOUR), use("b", 4, HOUR)], since=HOUR, until=2 * HOUR)
    assert spent(found) == {("a", "busy"): 4.0, ("b", "busy"): 4.0}


def test_a_day_ends_in_the_middle_of_a_life() -> None:
    over = life(start=DECEMBER - HOUR, ready=DECEMBER - HOUR)
    found = charges(over, [use("a", 4, DECEMBER - HOUR)], since=0, until=DECEMBER + 2 * HOUR)
    assert {(key.day, amount.usd) for key, amount in found.items()} == {
        ("2026-11-30", 8.0),
        ("2026-12-01", 16.0),
    }


def test_what_was_booked_too_far_is_taken_off_again() -> None:
    gone = life(end=2 * HOUR)
    found = charges(gone, [use("a", 4, HOUR)], since=3 * HOUR, until=2 * HOUR)
    assert spent(found) == {(NOBODY, "idle"): -8.0}


def test_what_is_certain_depends_on_the_state() -> None:
    from provisioner.fleet.instances import InstanceState as S

    assert settled_until(record(S.BOOTING), 100.0) is None
    assert settled_until(record(S.READY, ready_at=5.0), 100.0) == 100.0
    assert settled_until(record(S.LOST, ready_at=5.0), 100.0) == 5.0
    assert settled_until(record(S.GONE, ended_at=50.0), 100.0) == 50.0


@given(st.floats(0, 4e9), st.floats(0, 1e8))
def test_months_cover_a_time_without_gaps(start: float, length: float) -> None:
    parts = list(by_month(start, start + length))
    assert sum(until - from_ for _, from_, until in parts) == pytest.approx(length, abs=1e-3)
    for name, from_, until in parts:
        assert month_of(from_) == name
        assert until <= month_end(from_)


@given(st.floats(0, 4e9), st.floats(0, 1e7))
def test_days_cover_a_time_without_gaps(start: float, length: float) -> None:
    parts = list(by_day(start, start + length))
    assert sum(until - from_ for _, from_, until in parts) == pytest.approx(length, abs=1e-3)
    for name, from_, until in parts:
        assert day_of(from_) == name
        assert until - from_ <= DAY_S
    assert len({name for name, *_ in parts}) == len(parts)


TIMES = st.floats(0, 60 * 86400.0)
USES = st.lists(
    st.builds(
        lambda job, slots, start, length: use(
            job, slots, start, None if length is None else start + length
        ),
        st.sampled_from("abc"),
        st.integers(0, 4),
        TIMES,
        st.none() | TIMES,
    ),
    max_size=8,
)


@given(
    start=TIMES,
    boot=st.none() | st.floats(0, 1e5),
    silent=st.none() | st.floats(0, 1e6),
    length=st.floats(0, 1e7),
    uses=USES,
    cuts=st.lists(TIMES, max_size=5),
)
def test_the_ledger_is_the_sum_of_lifetimes(
    start: float,
    boot: float | None,
    silent: float | None,
    length: float,
    uses: list[Use],
    cuts: list[float],
) -> None:
    """Booked at once or in any parts."""
    end = start + length
    ready = None if boot is None else min(start + boot, end)
    lost = None if ready is None or silent is None else min(ready + silent, end)
    gone = life(start=start, ready=ready, lost=lost, end=end)
    edges = sorted({start, end, *(min(max(cut, start), end) for cut in cuts)})
    whole = charges(gone, uses, since=start, until=end)
    parts = merged(
        charges(gone, uses, since=since, until=until) for since, until in pairwise(edges)
    )
    usd = 8.0 * length / HOUR
    assert sum(amount.usd for amount in whole.values()) == pytest.approx(usd, abs=1e-6)
    assert sum(amount.usd for amount in parts.values()) == pytest.approx(usd, abs=1e-6)
    for key, amount in whole.items():
        known = parts.get(key)
        assert (0.0 if known is None else known.usd) == pytest.approx(amount.usd, abs=1e-6)
    assert all(amount.usd >= 0 for amount in whole.values())
    for key in whole:
        assert (key.kind is K.BUSY) == (key.job_id != NOBODY)


STOPS = (
    StoppedTime(since=2 * HOUR, until=5 * HOUR, ready_at=6 * HOUR),
    StoppedTime(since=7 * HOUR),
)


def test_a_machine_costs_its_disk_while_it_is_stopped() -> None:
    stopped = Lifetime(
        instance_id="m",
        pool="gpu",
        slots=4,
        usd_per_hour=8.0,
        start=0.0,
        ready=HOUR,
        stops=STOPS,
        disk_usd_per_hour=0.5,
    )
    found = charges(stopped, [use("a", 4, HOUR, 2 * HOUR)], since=0, until=9 * HOUR)
    assert spent(found) == {
        (NOBODY, "boot"): 16.0,
        ("a", "busy"): 8.0,
        (NOBODY, "stopped"): 2.5,
        (NOBODY, "idle"): 8.0,
    }
    assert sum(each.hours for each in found.values()) == pytest.approx(4.0), "hours that it ran"
    assert stopped.usd(0, 9 * HOUR) == pytest.approx(34.5)
    parts = [charges(stopped, (), since=h * HOUR, until=(h + 1) * HOUR) for h in range(9)]
    whole = charges(stopped, (), since=0, until=9 * HOUR)
    assert {key: each.usd for key, each in merged(parts).items()} == pytest.approx(
        {key: each.usd for key, each in whole.items()}
    )


def test_a_start_that_never_got_an_agent_is_lost() -> None:
    started = (StoppedTime(since=2 * HOUR, until=3 * HOUR),)
    lost = Lifetime(
        instance_id="m",
        pool="gpu",
        slots=4,
        usd_per_hour=8.0,
        start=0.0,
        ready=HOUR,
        end=4 * HOUR,
        stops=started,
    )
    kinds = spent(charges(lost, (), since=0, until=4 * HOUR))
    assert kinds[(NOBODY, "lost")] == 8.0
