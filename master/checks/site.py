"""What master.yaml needs of a batch system, tried on this machine: for `windlass doctor` and `windlass hpc check`."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from master.config import MasterConfig
from master.config.resource_managers import BatchResourceManager
from master.wiring.batch.pilots import batch_sections
from master.wiring.batch.pools import site_of
from provisioner.batch.base import DISPATCHED, NoAnswer
from provisioner.batch.slurm.pyslurm.process import NotUsable
from provisioner.batch.slurm.pyslurm.system import PyslurmSystem
from provisioner.sections.batch import BatchSection
from windlass.base.checks import Check, CheckStatus

NAME = "slurmrestd"
LIMIT_S = 15.0


async def site_checks(config: MasterConfig) -> list[Check]:
    """None where no pool is of a batch system, or nothing is to be tried."""
    sections = batch_sections(config.pools())
    manager = config.resource_manager
    if isinstance(manager, BatchResourceManager):
        sections = [*sections, manager.provider("", scheme="http", port=config.port)]
    return [
        *_folders_of_nodes(config, sections),
        *_folders_of_users(sections),
        *await _rest(sections),
    ]


def _folders_of_nodes(config: MasterConfig, sections: Sequence[BatchSection]) -> Iterator[Check]:
    """What is in the data folder unless somebody says otherwise, which belongs on a disk of the master alone."""
    unset = {}
    if sections and config.checkpoint_storage is None:
        unset["checkpoint_storage"] = "checkpoints"
    if any(one.job_storage_root is None for one in sections):
        unset["job_storage_root"] = "the directories of jobs"
    for name, what in unset.items():
        yield Check(
            name=name,
            status=CheckStatus.WARNING,
            found=f"not set: {what} are in the data folder of the master, which nodes then must see",
            advice="set it to a folder on a file system that all nodes share: docs/hpc/sysadmin.md",
        )


def _folders_of_users(sections: Iterable[BatchSection]) -> Iterator[Check]:
    """Where each user makes folders of their own."""
    roots = {one.job_storage_root for one in sections if one.impersonate is not None}
    for root in sorted(filter(None, roots)):
        problem = _why_not_of_users(Path(root))
        advice = f"install -d -m 1777 {root}, or correct job_storage_root: docs/hpc/sysadmin.md"
        yield Check(
            name="job_storage_root",
            status=CheckStatus.WARNING if problem else CheckStatus.OK,
            found=problem or f"{root}: all users may make a folder of their own",
            advice=advice if problem else "",
        )


def _why_not_of_users(root: Path) -> str:
    """Empty: they may make folders there, and remove none of another's."""
    try:
        mode = root.stat().st_mode
    except OSError as error:
        return f"{root}: {error.strerror}"
    if not stat.S_ISDIR(mode):
        return f"{root} is not a directory"
    now = f"{root} has mode {stat.S_IMODE(mode):o}"
    if mode & 0o003 != 0o003:
        return f"{now}: not all users can make a folder there"
    if not mode & stat.S_ISVTX:
        return f"{now}, without the sticky bit: users may remove each other's folders"
    return ""


async def _rest(sections: list[BatchSection]) -> list[Check]:
    """Whether slurmrestd answers, where it is used."""
    api = next((section.api for section in sections if section.api is not None), None)
    if api is None:
        return []
    site = site_of(sections)
    if isinstance(site.system, PyslurmSystem):
        return [await pyslurm_check(site.system)]
    try:
        async with asyncio.timeout(LIMIT_S):
            found = await site.system.site()
            await site.system.named_like(DISPATCHED)  # as its master asks it all the time
    except NoAnswer as error:
        return [_failed(error.message, "correct it, or `api` in master.yaml: docs/hpc/rest.md")]
    except TimeoutError:
        return [
            _failed(
                f"{api.url} does not answer within {LIMIT_S:g} s",
                "see whether slurmrestd runs there",
            )
        ]
    finally:
        await asyncio.to_thread(site.close)
    whose = f" as {api.user}" if api.user else ""
    many = f"{len(found.queues)} partitions"
    return [Check(name=NAME, found=f"Slurm {found.version} at {api.url}{whose}: {many}")]


async def pyslurm_check(system: PyslurmSystem) -> Check:
    """Whether it fits the site's Slurm. Its import may take a minute."""
    try:
        version = await system.version()
    except NotUsable as error:
        return Check(
            name="pyslurm",
            status=CheckStatus.WARNING,
            found=f"not usable, so commands of Slurm are used: {error.message}",
            advice="install the one of the site's release: docs/hpc/rest.md#pyslurm",
        )
    except NoAnswer as error:
        return Check(
            name="pyslurm",
            status=CheckStatus.FAILED,
            found=error.message,
            advice="correct `path` in master.yaml, or see whether the site is up: scontrol ping",
        )
    finally:
        await asyncio.to_thread(system.close)
    return Check(name="pyslurm", found=f"{version} fits the site's Slurm")


def _failed(found: str, advice: str) -> Check:
    return Check(name=NAME, status=CheckStatus.FAILED, found=found, advice=advice)
