"""Slurm by its commands, against a real one: what the contract of batch systems (tests/contract/batch) does not say."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from provisioner.batch.base import JobRefused, NoAnswer
from provisioner.batch.commands import LocalCommands
from provisioner.batch.slurm.system import SlurmSystem
from tests.contract.batch.sites import is_over, slurm_site, until
from tests.slurm import Slurm


def test_gpus_are_told_on_every_node_and_nothing_is_requeued(slurm: Slurm, tmp_path: Path) -> None:
    async def main() -> None:
        site = slurm_site(slurm)
        body = "srun sh -c 'echo \"$SLURM_NODEID $CUDA_VISIBLE_DEVICES\"'"
        spec = site.job(tmp_path, "wl-test-gpus", body, nodes=2, gpus_per_node=2)
        system = site.make()
        id_ = await system.submit(spec)
        assert "Requeue=0" in slurm.run("scontrol", "show", "job", id_)
        await until(system, spec.name, is_over)

    asyncio.run(main())
    lines = sorted((tmp_path / "batch.log").read_text().splitlines())
    assert lines == ["0 0,1", "1 0,1"]


def test_more_than_a_node_has_is_refused(slurm: Slurm, tmp_path: Path) -> None:
    site = slurm_site(slurm)
    with pytest.raises(JobRefused, match="Requested node configuration is not available"):
        asyncio.run(site.make().submit(site.job(tmp_path, "wl-test-no", "true", gpus_per_node=9)))


def test_without_its_commands_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provisioner.batch.commands.PLACES", "")
    system = SlurmSystem(LocalCommands(environ={"PATH": str(tmp_path)}))
    with pytest.raises(NoAnswer, match="squeue cannot be run"):
        asyncio.run(system.poll(["x"]))
