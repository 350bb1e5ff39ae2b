"""The listening socket when open files run out."""

from __future__ import annotations

import errno
import socket

import pytest

from master.server import listener
from master.server.listener import BACKLOG, TAKEN_AT_ONCE, bound


def test_after_files_ran_out_it_accepts_nothing_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    full = True

    def accept(_: socket.socket) -> tuple[socket.socket, object]:
        if full:
            raise OSError(errno.EMFILE, "Too many open files")
        return ours, None

    monkeypatch.setattr(socket.socket, "accept", accept)
    monkeypatch.setattr(listener, "monotonic", lambda: now)
    with bound("127.0.0.1", 0) as door, socket.socket() as ours:
        with pytest.raises(OSError, match="Too many open files"):
            door.accept()
        with pytest.raises(BlockingIOError):
            door.accept()
        full = False
        with pytest.raises(BlockingIOError):
            door.accept()
        now += 1.0  # when asyncio comes back
        assert door.accept() == (ours, None)


def test_more_may_wait_than_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(socket.socket, "listen", lambda _, backlog: asked.append(backlog))
    with bound("127.0.0.1", 0) as door:
        door.listen(TAKEN_AT_ONCE)
    assert asked == [BACKLOG]
