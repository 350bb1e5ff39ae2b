"""Pools that want their tasks contained refuse agents that cannot do it."""

from __future__ import annotations

import pytest

from agent_bootstrap.protocol import ContainerReport, ContainerState, Hello, IsolationKind
from rm_backends.agents.connections.hello import isolation_refusal, refusal, shares_user
from tests.fakes.pools import resolved_pool

WORK = ContainerReport(container_id="c", allocation_id="a", state=ContainerState.RUNNING)
BUBBLEWRAP, NAMESPACES, CONTAINERS, DIRECTORY, UNKNOWN = IsolationKind


def hello(isolation: IsolationKind, uid: int | None, **more: object) -> Hello:
    fields = {"version": "1", "agent_id": "a", "pool": "p", "boot_id": "b", **more}
    return Hello.model_validate({**fields, "isolation": isolation, "uid": uid})


@pytest.mark.parametrize(
    ("required", "uid", "isolation", "is_refused"),
    [
        *((True, uid, DIRECTORY, True) for uid in (0, 1000, None)),
        *((True, uid, UNKNOWN, True) for uid in (0, 1000, None)),
        *((True, uid, NAMESPACES, False) for uid in (0, 1000, None)),
        (None, 0, DIRECTORY, True),
        (None, 0, UNKNOWN, True),
        (None, 0, NAMESPACES, False),
        (None, 0, BUBBLEWRAP, False),
        (None, 0, CONTAINERS, False),
        (None, 1000, DIRECTORY, False),
        (None, None, UNKNOWN, False),  # an agent of the release before
        (False, 0, DIRECTORY, False),
    ],
)
def test_who_is_refused(
    required: bool | None, uid: int | None, isolation: IsolationKind, is_refused: bool
) -> None:
    pool = resolved_pool("p", require_isolation=required)
    found = refusal(hello(isolation, uid), pool, epoch=1)
    assert (found is not None) is is_refused


def test_a_refusal_says_why_and_what_helps() -> None:
    said = hello(DIRECTORY, 0, notes=("tasks run without private namespaces (no unshare)",))
    found = isolation_refusal(said, resolved_pool("p"))
    assert found is not None
    assert found.reason == (
        "pool 'p' requires isolation, as every pool does of agents that are root, and the agent cannot contain tasks "
        "(tasks run without private namespaces (no unshare)): install bubblewrap or allow namespaces there, or set "
        "require_isolation: false for the pool in master.yaml"
    )
    assert found.retry is False


def test_an_agent_with_running_work_waits_for_its_operator() -> None:
    found = isolation_refusal(hello(DIRECTORY, 0, containers=(WORK,)), resolved_pool("p"))
    assert found is not None
    assert found.retry is True


@pytest.mark.parametrize(
    ("boot", "uid", "is_told"),
    [("b", 1000, True), ("other", 1000, False), ("b", 1001, False), ("b", 0, False)],
)
def test_an_agent_of_the_masters_own_user_beside_it_is_told(
    boot: str, uid: int, is_told: bool
) -> None:
    said = hello(NAMESPACES, uid, boot_id=boot)
    note = shares_user(said, "b", 1000)
    assert bool(note) is is_told
    assert shares_user(hello(NAMESPACES, 0), "b", 0) == ""
