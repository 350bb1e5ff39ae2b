"""The output of a task on the disk of its node: never more than it may, and what is lost is said."""

from __future__ import annotations

import errno
import itertools
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.agent.containers.log_lines import read_lines
from agent_bootstrap.supervisor import output_file
from agent_bootstrap.supervisor.output_file import OutputFile

KIB, MIB = 2**10, 2**20
LINE_BYTES = 4000
GAP = re.compile(r"([\d,]+) lines of output .* are missing here: (.*)")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_file, "WAITING_BYTES", 64 * KIB)
    monkeypatch.setattr(output_file, "LOOK_EVERY_BYTES", 128 * KIB)


class Task:
    """Writes numbered lines."""

    def __init__(self, folder: Path, *, limit_bytes: int | None = MIB) -> None:
        self.path, self.shipped = folder / "output.log", folder / "shipped"
        self.output = OutputFile(str(self.path), limit_bytes=limit_bytes, shipped=str(self.shipped))
        self._numbers = itertools.count()

    def say(self, lines: int) -> None:
        for number in itertools.islice(self._numbers, lines):
            self.output.write(b"%d o %d %b\n" % (1_700_000_000_000_000, number, b"x" * LINE_BYTES))

    def held(self) -> int:
        return self.path.stat().st_blocks * 512

    def ship(self) -> list[str]:
        """As an agent and its master do: what is new, noted as stored."""
        texts, offset = [], int(self.shipped.read_text()) if self.shipped.exists() else 0
        while (lines := read_lines(self.path, offset, complete=True)).next_offset > offset:
            texts += [entry.log for entry in lines.entries]
            offset = lines.next_offset
        self.shipped.write_text(str(offset))
        return texts


def numbers(texts: list[str]) -> list[int]:
    return [int(text.split()[0]) for text in texts if text.endswith("xxx")]


def gaps(texts: list[str]) -> list[tuple[int, int, str]]:
    """(between which lines: the last before it, how many, why) of each gap that is noted."""
    found = []
    for before, text in itertools.pairwise(texts):
        if match := GAP.fullmatch(text):
            found.append((int(before.split()[0]), int(match[1].replace(",", "")), match[2]))
    return found


@pytest.mark.usefixtures("small")
def test_what_the_master_has_is_freed_and_nothing_is_lost(tmp_path: Path) -> None:
    task, texts, most = Task(tmp_path), [], 0
    for _ in range(100):
        task.say(50)
        texts += task.ship()
        most = max(most, task.held())
    assert numbers(texts) == list(range(5000))
    assert task.path.stat().st_size > 16 * MIB
    assert most <= MIB


@pytest.mark.usefixtures("small")
def test_a_task_without_end_keeps_its_beginning_and_its_end_while_the_master_is_away(
    tmp_path: Path,
) -> None:
    task = Task(tmp_path)
    for _ in range(100):
        task.say(50)
        assert task.held() <= MIB
    task.output.flush(last=True)
    assert task.held() <= MIB
    texts = task.ship()
    told = numbers(texts)
    (last_before, lost, why), *more = gaps(texts)
    first = list(range(last_before + 1))
    assert told == [*first, *range(last_before + 1 + lost, 5000)]
    assert (len(first) > 200, len(told) - len(first) >= 15, more) == (True, True, [])
    assert why.startswith("the agent keeps 1 MiB that the master has not taken")


@pytest.mark.usefixtures("small")
def test_it_goes_on_once_the_master_is_back_with_one_gap(tmp_path: Path) -> None:
    task = Task(tmp_path)
    task.say(1000)
    texts = task.ship()
    assert gaps(texts) == []
    assert task.output.pause_s is not None, "what waits is to be written, also if the task is quiet"
    task.output.flush()
    assert task.output.pause_s is None
    task.say(10)
    texts += task.ship()
    ((last_before, lost, _),) = gaps(texts)
    assert numbers(texts) == [*range(last_before + 1), *range(last_before + 1 + lost, 1010)]
    assert task.held() <= MIB


@pytest.mark.usefixtures("small")
def test_where_files_cannot_be_freed_the_limit_is_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(output_file, "punch_hole", refuse)
    task, texts = Task(tmp_path), []
    for _ in range(40):
        task.say(50)
        texts += task.ship()
    task.output.flush(last=True)
    texts += task.ship()
    assert task.path.stat().st_size <= MIB
    assert numbers(texts)[-1] == 1999
    assert gaps(texts)[0][2].startswith("the agent keeps 1 MiB of one task on this disk")


def test_without_a_limit_all_is_kept(tmp_path: Path) -> None:
    task = Task(tmp_path, limit_bytes=None)
    task.say(2000)
    assert numbers(task.ship()) == list(range(2000))


@given(st.lists(st.integers(0, 3 * LINE_BYTES) | st.just(10**9), max_size=40), st.booleans())
def test_a_full_disk_costs_lines_and_says_how_many(
    tmp_path_factory: pytest.TempPathFactory, takes: list[int], filled: bool
) -> None:
    """Whatever part of each write it takes."""
    task = Task(tmp_path_factory.mktemp("log"), limit_bytes=MIB if filled else None)
    really, room = os.write, iter(takes)

    def write(fd: int, data: Any) -> int:
        if fd != task.output._fd or (taken := next(room, 10**9)) >= len(data):
            return really(fd, data)
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really(fd, data[:taken])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        patch.setattr(output_file, "WAITING_BYTES", 4 * LINE_BYTES)
        task.say(30)
        for _ in takes:
            task.output.flush(last=True)
        task.output.flush(last=True)
    texts = task.ship()
    told = numbers(texts)
    assert told == sorted(set(told)), "in order, none twice"
    assert told[-1] == 29
    assert len(told) == 30 or any("lines of output" in text for text in texts)
