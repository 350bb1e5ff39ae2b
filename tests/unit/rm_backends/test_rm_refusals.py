"""What operators hear of refused connections, however often and by whichever name somebody tries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rm_backends.agents.connections.refusals import (
    LINES_WITHIN,
    MAX_LINES,
    MAX_UNAUTHENTICATED,
    Refusals,
)
from rm_backends.views import RefusalView

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def refusal(
    agent_id: str, address: str = "10.0.0.1", after: timedelta = timedelta(0)
) -> RefusalView:
    at = NOW + after
    return RefusalView(
        agent_id=agent_id,
        pool="default",
        address=address,
        version="1",
        reason="no such token",
        first=at,
        last=at,
    )


def test_a_refusal_is_told_once_until_its_reason_is_another() -> None:
    refusals = Refusals()
    assert refusals.note(refusal("a"), unauthenticated=True)
    assert not refusals.note(refusal("a"), unauthenticated=True)
    assert refusals.all()[0].times == 2


def test_an_address_that_makes_up_names_causes_only_so_many_lines_at_a_time() -> None:
    refusals = Refusals()
    told = [refusals.note(refusal(f"a{n}"), unauthenticated=True) for n in range(MAX_LINES + 50)]
    assert told == [True] * MAX_LINES + [False] * 50
    assert refusals.last_of(f"a{MAX_LINES + 49}"), "the list has it"
    assert refusals.note(refusal("b", "10.0.0.2"), unauthenticated=True), "another address"
    later = refusal("later", after=LINES_WITHIN)
    assert refusals.note(later, unauthenticated=True)


def test_what_is_kept_of_addresses_is_bounded() -> None:
    refusals = Refusals()
    for n in range(MAX_UNAUTHENTICATED * 3):
        assert refusals.note(refusal("a", f"10.0.{n // 256}.{n % 256}"), unauthenticated=True)
    assert len(refusals.all()) == MAX_UNAUTHENTICATED
