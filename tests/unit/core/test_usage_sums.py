"""Slot seconds by day and month."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from master.usage.allocations import UsedAllocation
from master.usage.sums import Adder, Kind, Period, days

NOW = datetime(2026, 3, 2, 6, tzinfo=UTC)
WHOLE = days(date(2026, 1, 1), date(2026, 12, 31))
HOUR = 3600.0


def used(start: datetime, end: datetime | None, slots: int = 1, **fields: object) -> UsedAllocation:
    row = UsedAllocation(
        "a", slots, start, end, None, "pool", "TRIAL", 1, "u", 1, ("l", "m", "l"), "w", 1, 1
    )
    return row._replace(**fields)


def lines(period: Period, *rows: UsedAllocation) -> list[tuple[str, str, str, float]]:
    adder = Adder(WHOLE, period, NOW)
    adder.add(rows)
    return [
        (period.text(sums.first), str(kind), key, seconds)
        for sums in adder.sums()
        for kind, key, seconds in sums.lines()
    ]


def test_a_run_over_midnight_counts_on_both_days_and_for_each_label_once() -> None:
    start = datetime(2026, 2, 28, 23, tzinfo=UTC)
    shown = lines(Period.DAILY, used(start, start + timedelta(hours=3), 2))
    assert shown == [
        (day, kind, key, hours * 2 * HOUR)
        for day, hours in (("2026-02-28", 1), ("2026-03-01", 2))
        for kind, key in (
            ("experiment_label", "l"),
            ("experiment_label", "m"),
            ("username", "u"),
            ("resource_pool", "pool"),
            ("total", "total"),
        )
    ]


def test_what_runs_counts_until_now_and_months_are_whole() -> None:
    shown = lines(Period.MONTHLY, used(datetime(2026, 2, 28, tzinfo=UTC), None))
    totals = [(month, seconds) for month, kind, _, seconds in shown if kind == Kind.TOTAL]
    assert totals == [("2026-02", 24 * HOUR), ("2026-03", 30 * HOUR)]


@given(
    st.timedeltas(timedelta(-40), timedelta(400)).map(lambda after: WHOLE.start + after),
    st.timedeltas(timedelta(0), timedelta(days=80)),
    st.sampled_from(Period),
    st.integers(0, 8),
)
def test_periods_add_up_to_the_whole(
    start: datetime, length: timedelta, period: Period, slots: int
) -> None:
    row = used(start, start + length, slots)
    total = sum(seconds for _, kind, _, seconds in lines(period, row) if kind == Kind.TOTAL)
    assert abs(total - slots * WHOLE.seconds(start, start + length)) < 1e-3
