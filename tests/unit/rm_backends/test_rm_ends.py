"""When an agent goes, and why: what it says itself, and what whoever supplies its machine says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agent_bootstrap.protocol import Leaving
from master.core.deadlines import Cause, Deadline
from rm_backends.agents.agents import CLOCKS_DIFFER_S, Agent
from rm_backends.agents.departures import said_by_agent
from rm_backends.ports import AgentRecord

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
END = AT.timestamp()


def an_agent() -> Agent:
    record = AgentRecord(agent_id="a", pool="p", slots=1, first_seen=AT)
    return Agent(record=record, aux_places=1)


def told(at: float, cause: Cause = Cause.JOB_LIMIT) -> Deadline:
    return Deadline(at=at, cause=cause)


@pytest.mark.parametrize(
    ("later_s", "cause"),
    [
        (600.0, Cause.JOB_LIMIT),
        (-CLOCKS_DIFFER_S, Cause.JOB_LIMIT),
        (-CLOCKS_DIFFER_S - 1, Cause.CUT_SHORT),
    ],
)
def test_an_end_that_comes_sooner_than_was_known_cuts_it_short(
    later_s: float, cause: Cause
) -> None:
    agent = an_agent()
    agent.says_end(AT, Cause.JOB_LIMIT)
    agent.note_end(told(END + later_s))
    assert agent.end == told(END + later_s, cause)


def test_that_it_was_cut_short_stays_so() -> None:
    """Also when it connects again, and says when it would have ended."""
    agent = an_agent()
    agent.note_end(told(END))
    agent.note_end(told(END - 600))
    agent.note_end(told(END - 600))
    assert agent.end == told(END - 600, Cause.CUT_SHORT)
    for says in (AT, None):
        agent.says_end(says, Cause.JOB_LIMIT)
        agent.note_end(told(END - 600))
        assert agent.end == told(END - 600, Cause.CUT_SHORT)


def test_without_that_it_ends_as_it_says_when_it_connects() -> None:
    agent = an_agent()
    agent.says_end(AT, Cause.LIFETIME)
    assert agent.end == told(END, Cause.LIFETIME)
    agent.says_end(None, Cause.LIFETIME)
    assert agent.end is None


@pytest.mark.parametrize(("taken_back", "cause"), [(True, Cause.TAKEN_BACK), (False, Cause.LEAVES)])
def test_what_an_agent_says_of_its_machine_is_its_own(taken_back: bool, cause: Cause) -> None:
    said = said_by_agent(Leaving(at=AT, reason="why", taken_back=taken_back))
    assert said == Deadline(at=END, cause=cause, reason="why", its_own=True)


def test_the_earlier_of_two_counts_and_a_time_before_none() -> None:
    early, late = (
        Deadline(at=(AT + timedelta(hours=n)).timestamp(), cause=Cause.EMPTIED) for n in (0, 1)
    )
    waits = Deadline(at=END, cause=Cause.LEAVES, waits=True)
    assert early.is_before(late)
    assert not late.is_before(early)
    assert late.is_before(waits)
    assert not waits.is_before(late)
