"""Whom a task runs as: the master's wish, as far as the agent can do it."""

from __future__ import annotations

import pytest

from agent_bootstrap.agent.identity import (
    UNPRIVILEGED,
    named_after,
    one_user_notes,
    own_identity,
    process_user,
    task_identity,
)
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.protocol import Bind, ContainerSpec, ExitFailure, IsolationKind

ROOT = OsUser()
ALICE = OsUser(uid=1000, gid=1000, user="alice", group="alice")
BOB = OsUser(uid=1001, gid=1001, user="bob", group="bob")


@pytest.mark.parametrize("wanted", [ALICE, BOB, ROOT])
def test_a_root_agent_runs_tasks_as_whom_it_is_told(wanted: OsUser) -> None:
    assert task_identity(wanted, ROOT) == wanted


def test_without_a_word_a_root_agent_runs_tasks_unprivileged() -> None:
    who = task_identity(None, ROOT)
    assert who == UNPRIVILEGED
    assert who.uid not in (0, 65534)
    assert who.gid not in (0, 65534)


@pytest.mark.parametrize("wanted", [None, ALICE])
def test_any_other_agent_runs_tasks_as_itself(wanted: OsUser | None) -> None:
    assert task_identity(wanted, ALICE) == ALICE


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (BOB, "The agent runs as alice (1000) and cannot run tasks as bob (1001)"),
        (ROOT, "The agent runs as alice (1000) and cannot run tasks as root (0)"),
        (
            ALICE.model_copy(update={"gid": 2000}),
            "The agent runs as alice (1000) and cannot run tasks as alice (1000:2000)",
        ),
    ],
)
def test_any_other_agent_refuses_another_identity(wanted: OsUser, sentence: str) -> None:
    with pytest.raises(StartRefused) as refused:
        task_identity(wanted, ALICE)
    assert str(refused.value) == sentence
    assert refused.value.failure is ExitFailure.TASK_ERROR


@pytest.mark.parametrize(
    ("agent", "isolation", "user"),
    [
        (ROOT, IsolationKind.NAMESPACES, UNPRIVILEGED.user),
        (ROOT, IsolationKind.BUBBLEWRAP, UNPRIVILEGED.user),
        (ROOT, IsolationKind.DIRECTORY, ROOT.user),
        (ROOT, IsolationKind.CONTAINERS, ""),
        (ALICE, IsolationKind.NAMESPACES, "alice"),
        (ALICE, IsolationKind.DIRECTORY, "alice"),
        (ALICE, IsolationKind.CONTAINERS, ""),
    ],
)
def test_it_says_beforehand_whom_processes_run_as(
    agent: OsUser, isolation: IsolationKind, user: str
) -> None:
    assert process_user(agent, isolation) == user


def test_an_agent_that_is_not_root_says_that_one_user_runs_everything() -> None:
    assert one_user_notes(ROOT) == ()
    (note,) = one_user_notes(ALICE)
    assert note == "the agent is not root: all tasks run as alice (1000) and may do what it may"


def test_the_agent_knows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.getegid", lambda: 0)
    assert own_identity() == OsUser()


def test_a_number_without_an_account_is_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1999999999)
    monkeypatch.setattr("os.getegid", lambda: 1999999998)
    assert own_identity() == OsUser(
        uid=1999999999, gid=1999999998, user="1999999999", group="1999999998"
    )


def test_the_name_is_put_where_the_master_could_not_know_it() -> None:
    spec = ContainerSpec(
        container_id="c",
        allocation_id="a",
        task_id="t",
        task_type="COMMAND",
        entrypoint=("true",),
        environment={"DET_WORKDIR": "/home/$AGENT_USER", "A": "$AGENT_USER"},
        work_dir="/home/$AGENT_USER",
        binds=(
            Bind(source="/data", target="/home/$AGENT_USER/data"),
            Bind(source="/data", target="/data"),
        ),
    )
    named = named_after(UNPRIVILEGED, spec)
    assert named.work_dir == "/home/task"
    assert named.environment == {"DET_WORKDIR": "/home/task", "A": "$AGENT_USER"}
    assert [bind.target for bind in named.binds] == ["/home/task/data", "/data"]
    assert named_after(UNPRIVILEGED, named) == named
