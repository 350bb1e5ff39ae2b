"""Processes are signalled and waited for by what they are, also on kernels that have no descriptors of them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from windlass.base.processes import (
    ProcessHandle,
    ProcessName,
    boot_id,
    marked_processes,
    send,
    start_time,
    sweep,
    wait_gone,
)

LONG_S = 60.0


@pytest.fixture(params=["descriptors", "old kernel", "built for an old kernel"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_there(*_: object) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    if request.param == "old kernel":
        monkeypatch.setattr(os, "pidfd_open", not_there)
        monkeypatch.setattr(signal, "pidfd_send_signal", not_there)
    elif request.param != "descriptors":
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.delattr(signal, "pidfd_send_signal")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    program = "import signal; print(flush=True); signal.pause()"
    process = subprocess.Popen([sys.executable, "-ISc", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def name_of(process: subprocess.Popen[bytes]) -> ProcessName:
    started = start_time(process.pid)
    assert started is not None
    return ProcessName(process.pid, started, boot_id())


def test_a_process_that_runs_is_signalled_and_waited_for(sleeper: subprocess.Popen[bytes]) -> None:
    """A zombie has ended."""
    name = name_of(sleeper)
    assert not wait_gone(name, 0)
    send(name, signal.SIGTERM)
    assert wait_gone(name, LONG_S)
    assert sleeper.wait() == -signal.SIGTERM


def test_another_process_with_its_number_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    name = name_of(sleeper)
    before = ProcessName(name.pid, name.start_time - 1, name.boot_id)
    send(before, signal.SIGKILL)
    assert wait_gone(before, LONG_S)
    assert not wait_gone(name, 0)


def test_one_that_is_gone_is_nobody(sleeper: subprocess.Popen[bytes]) -> None:
    name = name_of(sleeper)
    with ProcessHandle(sleeper.pid) as held:
        sleeper.kill()
        assert held.wait(LONG_S)
        sleeper.wait()
        assert held.wait(0)
        with pytest.raises(ProcessLookupError):
            held.send(signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        ProcessHandle(sleeper.pid)
    send(name, signal.SIGTERM)
    assert wait_gone(name, LONG_S)


def test_what_carries_a_mark_is_swept() -> None:
    mark = uuid.uuid4().hex
    children = [
        subprocess.Popen(["sleep", "600"], env={"WINDLASS_TEST_MARK": mark}) for _ in range(3)
    ]
    try:
        assert sweep("WINDLASS_TEST_MARK", mark) == 3
        assert not marked_processes("WINDLASS_TEST_MARK", mark)
        assert [child.wait() for child in children] == [-signal.SIGKILL] * 3
    finally:
        for child in children:
            child.kill()
            child.wait()
