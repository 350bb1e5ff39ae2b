"""The task's line to the master: what is tried again, what is not, and how errors read."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator

import pytest
from client_scripted_master import WAIT_S, Answer, Asked, ScriptedMaster, free_port

from windlass.base.errors import InvalidArgument, NotFound, PermissionDenied, Unauthenticated
from windlass.core._session import RetryPolicy, TaskSession
from windlass.sdk.wire import MasterError, MasterUnreachable

QUICK = RetryPolicy(total_s=5.0, first_delay_s=0.01, max_delay_s=0.05)


@pytest.fixture
def session(master: ScriptedMaster) -> Iterator[TaskSession]:
    line = TaskSession(master.url, "token", retry=QUICK)
    yield line
    line.close()


def test_the_allocation_token_goes_with_every_call(
    master: ScriptedMaster, session: TaskSession
) -> None:
    master.on("GET", "/x", {"a": 1})
    assert session.get("/x", limit=3) == {"a": 1}
    assert master.asked[0].headers["grpc-metadata-x-allocation-token"] == "Bearer token"
    assert master.asked[0].query == {"limit": ["3"]}


def test_a_closed_port_is_survived() -> None:
    port = free_port()
    servers: list[ScriptedMaster] = []

    class StartOnFirstFailure(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            servers.append(ScriptedMaster(port))
            servers[0].on("POST", "/x", {"ok": True})

    log, starter = logging.getLogger("windlass.core"), StartOnFirstFailure(logging.WARNING)
    log.addHandler(starter)
    session = TaskSession(f"http://127.0.0.1:{port}", "token", retry=QUICK)
    try:
        assert session.post("/x", {"n": 1}) == {"ok": True}
        assert servers[0].asked[0].body == {"n": 1}
    finally:
        log.removeHandler(starter)
        session.close()
        for server in servers:
            server.close()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_not_now_is_asked_again(status: int, master: ScriptedMaster, session: TaskSession) -> None:
    answers: list[Answer] = [(status, {}), (status, {}), (200, {"ok": 1})]
    master.on("POST", "/x", lambda _: answers.pop(0))
    assert session.post("/x", {}) == {"ok": 1}
    assert len(master.asked) == 3


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, InvalidArgument),
        (401, Unauthenticated),
        (403, PermissionDenied),
        (404, NotFound),
        (500, MasterError),
    ],
)
def test_a_refusal_is_typed_and_final(
    status: int, error: type[Exception], master: ScriptedMaster, session: TaskSession
) -> None:
    master.on("GET", "/x", lambda _: (status, {"error": {"error": "because"}}))
    with pytest.raises(error, match="because"):
        session.get("/x")
    assert len(master.asked) == 1


def test_giving_up_names_the_master() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    session = TaskSession(url, "token", retry=RetryPolicy(total_s=0.02, first_delay_s=0.01))
    with pytest.raises(MasterUnreachable, match=url):
        session.get("/x")


def test_close_wakes_a_request_that_waits(master: ScriptedMaster, session: TaskSession) -> None:
    release = threading.Event()

    def held(asked: Asked) -> Answer:
        release.wait(WAIT_S)
        return 200, {}

    master.on("GET", "/held", held)
    failed = threading.Event()

    def ask() -> None:
        try:
            session.request("GET", "/held", timeout_s=None)
        except MasterUnreachable:
            failed.set()

    thread = threading.Thread(target=ask)
    thread.start()
    master.wait_for("GET", "/held")
    session.close()
    assert failed.wait(WAIT_S)
    release.set()
    thread.join()


def test_the_environment_sets_the_total_time() -> None:
    config = {"total": 3, "backoff_factor": 1, "status_forcelist": [503]}
    policy = RetryPolicy.from_env({"DET_RETRY_CONFIG": json.dumps(config)})
    assert policy.total_s == 1 + 2 + 4
    assert policy.statuses == {503}
    assert sum(policy.delays()) <= 7


def test_the_default_waits_about_ten_minutes_in_short_steps() -> None:
    delays = list(RetryPolicy().delays())
    assert 580 <= sum(delays) <= 600
    assert max(delays) <= 10
