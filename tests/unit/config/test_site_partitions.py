"""Partitions are asked for at each start of a master, and remembered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from master.config import MasterConfig
from master.wiring.batch.partitions import FILE, partition_memory, with_site_partitions
from provisioner.batch.base import Queue, SiteFacts
from windlass.base.errors import InvalidState

PARTITION = (
    "PartitionName={name} Default={default} State=UP TotalNodes=2 MaxTime=UNLIMITED Nodes=n[1-2]"
)


class Commands:
    """A `scontrol` and `sinfo` on PATH that print what lies in a folder, or say that nobody answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in ("scontrol", "sinfo"):
            program = self.bin / name
            program.write_text(
                f'#!/bin/sh\ncase "$1 $2" in "show partition") cat {folder}/partitions && exit;; '
                f"*) test -e {folder}/partitions && exit 0;; esac\n"
                'echo "Unable to contact slurm controller" >&2; exit 1\n'
            )
            program.chmod(0o755)

    def answer(self, *names: str) -> None:
        lines = (
            PARTITION.format(name=name, default="YES" if name == names[0] else "NO")
            for name in names
        )
        (self.folder / "partitions").write_text("\n".join(lines))

    def fall_silent(self) -> None:
        (self.folder / "partitions").unlink(missing_ok=True)

    def config(self, **manager: str) -> MasterConfig:
        return MasterConfig.model_validate(
            {"resource_manager": {"type": "slurm", "path": str(self.bin), **manager}}
        )


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def pools(config: MasterConfig, folder: Path) -> Sequence[str]:
    found = asyncio.run(with_site_partitions(config, folder))
    return [pool.name for pool in found.pools()]


def test_a_master_starts_while_the_controller_is_down(commands: Commands, tmp_path: Path) -> None:
    """With the partitions of its last start."""
    commands.answer("gpu", "cpu")
    assert pools(commands.config(), tmp_path) == ["gpu", "cpu"]
    commands.fall_silent()
    assert pools(commands.config(), tmp_path) == ["gpu", "cpu"]
    commands.answer("cpu", "big")
    assert pools(commands.config(), tmp_path) == ["cpu", "big"]


@pytest.mark.parametrize(
    "memory", [None, b"{", b'{"system": "pbs", "partitions": [{"name": "q"}]}']
)
def test_one_that_knows_none_says_what_to_do(
    commands: Commands, tmp_path: Path, memory: bytes | None
) -> None:
    """What another batch system had does not count."""
    if memory is not None:
        (tmp_path / FILE).write_bytes(memory)
    with pytest.raises(InvalidState, match=r"not known yet, and .*: start the master when slurm"):
        pools(commands.config(), tmp_path)


def test_a_site_that_shows_no_partition(commands: Commands, tmp_path: Path) -> None:
    (commands.folder / "partitions").write_text("")
    with pytest.raises(InvalidState, match="shows this user no partition"):
        pools(commands.config(), tmp_path)
    commands.answer("gpu")
    pools(commands.config(), tmp_path)
    (commands.folder / "partitions").write_text("")
    assert pools(commands.config(), tmp_path) == ["gpu"]


def test_other_managers_ask_nobody(tmp_path: Path) -> None:
    config = MasterConfig()
    assert asyncio.run(with_site_partitions(config, tmp_path)) is config
    assert partition_memory(config, tmp_path) is None
    assert not (tmp_path / FILE).exists()


def test_a_partition_that_is_new_while_the_master_runs_is_told_once(
    commands: Commands, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And is there at the next start, though the controller is down then."""
    commands.answer("gpu")
    pools(commands.config(), tmp_path)
    memory = partition_memory(commands.config(), tmp_path)
    assert memory is not None
    queues: Mapping[str, Queue] = {name: Queue(name=name) for name in ("gpu", "new")}
    with caplog.at_level(logging.WARNING):
        asyncio.run(memory.watch(SiteFacts(queues=queues)))
        asyncio.run(memory.watch(SiteFacts(queues=queues)))
    assert caplog.messages == ["slurm has a new partition new: a restart makes a pool of it"]
    commands.fall_silent()
    assert pools(commands.config(), tmp_path) == ["gpu", "new"]
