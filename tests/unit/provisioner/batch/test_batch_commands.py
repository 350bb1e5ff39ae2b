"""How commands of a batch system are run on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import FinishedCommand, LocalCommands


def test_what_a_command_says_and_ends_with() -> None:
    done = asyncio.run(LocalCommands().run(["sh", "-c", "cat; echo no >&2; exit 7"], stdin="yes"))
    assert done == FinishedCommand(7, "yes", "no\n")


def test_only_known_variables_reach_a_command() -> None:
    """Those of Slurm and PBS change answers and submissions; secrets of the master are nobody's."""
    environ = {"HOME": "/h", "SBATCH_PARTITION": "x", "PBS_DEFAULT": "y", "SECRET": "z"}
    done = asyncio.run(LocalCommands(path="/mine", environ=environ).run(["env"]))
    told = dict(line.split("=", 1) for line in done.out.splitlines())
    assert told.pop("PATH").startswith("/mine:")
    assert told == {"HOME": "/h", "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"}


def test_a_command_that_does_not_end_is_ended_and_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match="sleep did not end within"):
        asyncio.run(LocalCommands().run(["sleep", "600"], limit_s=0.05))


def test_a_command_that_is_not_there_says_nothing() -> None:
    with pytest.raises(NoAnswer, match="nowhere cannot be run: No such file or directory"):
        asyncio.run(LocalCommands().run(["nowhere"]))


def test_the_last_words_of_a_command() -> None:
    assert FinishedCommand(1, "out", "one\ntwo\n\nthree\n").last == "two; three"
    assert FinishedCommand(1, " out \n", "").last == "out"
    assert FinishedCommand(3).last == "exit code 3"
