"""A connection that the master gives up while it is kept."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from client_scripted_master import ScriptedMaster

from windlass.base.kept_connections import CLIENT_KEEPS_S, MASTER_KEEPS_S
from windlass.core import _session
from windlass.core._session import TaskSession
from windlass.sdk.session import Session
from windlass.sdk.wire import MasterUnreachable

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}'


@dataclass
class Forgetful:
    """Closes its first connection when the request has come, and answers on the second."""

    url: str
    asked: list[bytes] = field(default_factory=list)


@contextmanager
def forgetful() -> Iterator[Forgetful]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Forgetful(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def serve() -> None:
            for answer in (b"", ANSWER):
                peer, _ = listener.accept()
                with peer:
                    if request := peer.recv(65536):
                        found.asked.append(request)
                        peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield found
        finally:
            for _ in range(2 - len(found.asked)):
                socket.create_connection(listener.getsockname()).close()
            thread.join()


def test_clients_give_connections_up_before_the_master_does() -> None:
    assert CLIENT_KEEPS_S < MASTER_KEEPS_S


def test_what_only_reads_is_asked_again() -> None:
    with forgetful() as master, Session(master.url) as session:
        assert session.get("/x") == {"a": 1}
        assert len(master.asked) == 2


def test_what_changes_something_is_sent_once() -> None:
    with forgetful() as master, Session(master.url) as session:
        with pytest.raises(MasterUnreachable, match="disconnected"):
            session.post("/x", {})
        assert len(master.asked) == 1


def test_a_task_does_not_use_a_connection_that_was_idle_for_long(
    master: ScriptedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    master.on("GET", "/x", {})
    session = TaskSession(master.url, "token")
    session.get("/x")
    (first,) = session._open
    session.get("/x")
    assert session._open == {first}
    monkeypatch.setattr(_session, "CLIENT_KEEPS_S", 0.0)
    session.get("/x")
    assert first not in session._open
    session.close()
