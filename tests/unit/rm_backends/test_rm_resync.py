"""A connecting agent: what it lists against what is expected of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.protocol import ContainerReport, ContainerState
from rm_backends.agents.connections.resync import Expected, Resync, resync

RUNNING = ContainerState.RUNNING
EXITED = ContainerState.EXITED


def listed(state: ContainerState, container_id: str = "c") -> ContainerReport:
    return ContainerReport(container_id=container_id, allocation_id="a", state=state)


@pytest.mark.parametrize(
    ("report", "expected", "outcome"),
    [
        (
            listed(RUNNING),
            Expected(container_id="c", confirmed=True),
            Resync(keep=("c",), reports=(listed(RUNNING),)),
        ),
        (
            listed(EXITED),
            Expected(container_id="c", killed=True),
            Resync(keep=("c",), reports=(listed(EXITED),)),
        ),
        (
            listed(RUNNING),
            Expected(container_id="c", killed=True),
            Resync(keep=("c",), reports=(listed(RUNNING),), kill=("c",)),
        ),
        (listed(EXITED), Expected(container_id="c", ending=True), Resync(keep=("c",))),
        (listed(RUNNING), None, Resync()),
        (listed(EXITED), None, Resync()),
        (None, Expected(container_id="c", startable=True), Resync(start=("c",))),
        (None, Expected(container_id="c"), Resync()),
        (None, Expected(container_id="c", confirmed=True, startable=True), Resync(vanished=("c",))),
        (None, Expected(container_id="c", confirmed=True, killed=True), Resync(vanished=("c",))),
        (
            None,
            Expected(container_id="c", startable=True, killed=True),
            Resync(never_started=("c",)),
        ),
        (None, Expected(container_id="c", confirmed=True, ending=True), Resync()),
    ],
)
def test_one_container(
    report: ContainerReport | None, expected: Expected | None, outcome: Resync
) -> None:
    assert resync([report] if report else [], [expected] if expected else []) == outcome


ids = st.sampled_from("abcdef")
expectations = st.lists(
    st.builds(
        Expected,
        container_id=ids,
        confirmed=st.booleans(),
        ending=st.booleans(),
        killed=st.booleans(),
        startable=st.booleans(),
    ),
    unique_by=lambda e: e.container_id,
)
reports = st.lists(
    st.builds(listed, st.sampled_from(ContainerState), ids), unique_by=lambda r: r.container_id
)


@given(listed_now=reports, expected=expectations)
def test_no_container_is_started_that_the_agent_ever_knew_and_none_is_forgotten(
    listed_now: list[ContainerReport], expected: list[Expected]
) -> None:
    plan = resync(listed_now, expected)
    known = {report.container_id for report in listed_now}
    wanted = {item.container_id: item for item in expected}
    assert set(plan.keep) == known & wanted.keys()
    for container_id in plan.start:
        assert container_id not in known
        assert not wanted[container_id].confirmed
    settled = {*plan.keep, *plan.start, *plan.never_started, *plan.vanished}
    for container_id, item in wanted.items():
        waits_for_start = not (item.confirmed or item.killed or item.startable)
        assert container_id in settled or item.ending or waits_for_start
