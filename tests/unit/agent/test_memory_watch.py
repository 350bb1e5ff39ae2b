"""How much memory a task has, by what its processes have touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_bootstrap.supervisor import memory_watch
from agent_bootstrap.supervisor.memory_watch import MemoryWatch, used_bytes

MIB = 2**20
FAMILY = """
import mmap, os, sys
held = bytearray(64 << 20)
reserved = mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0)
file = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, prot=mmap.PROT_READ)
assert file.find(b"x") == -1
for _ in range(3):
    if os.fork() == 0:
        os.read(0, 1)
        os._exit(0)
print("ready", flush=True)
os.read(0, 1)
"""


@pytest.mark.slow
def test_what_workers_share_counts_once_and_files_and_reservations_do_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.touch()
    os.truncate(data, 256 * MIB)
    # Below a shell of its own: this process may have other children, of other tests.
    shell = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", FAMILY, str(data)]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as family:
        assert family.stdout is not None
        assert family.stdout.readline() == b"ready\n"
        exact, quick = used_bytes(family.pid, 0), used_bytes(family.pid, 1024 * MIB)
        family.communicate(b"1234")
    assert 64 * MIB <= exact < 128 * MIB
    assert 4 * 64 * MIB <= quick < 4 * 128 * MIB, "an upper bound, and enough below the limit"


class Clock:
    """Stands where the module `time` stands."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_the_next_look_comes_before_the_limit_can_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, held = Clock(), 0
    monkeypatch.setattr(memory_watch, "time", clock)
    monkeypatch.setattr(memory_watch, "used_bytes", lambda top, enough: held)
    watch = MemoryWatch(1, 10 * 2**30)
    assert watch.pause_s == 1.0
    held = 6 * 2**30
    assert not watch.is_over()
    clock.now += 1
    assert not watch.is_over()
    assert watch.pause_s == pytest.approx(0.5)
    held = 11 * 2**30
    assert not watch.is_over(), "not looked again yet"
    clock.now += 0.5
    assert watch.is_over()
    assert watch.pause_s == pytest.approx(0.1)


def test_without_a_limit_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "used_bytes", lambda top, enough: 1 / 0)
    watch = MemoryWatch(1, 0)
    assert (watch.pause_s, watch.is_over()) == (None, False)
