"""Whether slurmrestd answers where master.yaml has one, for `windlass doctor` and `windlass hpc check`."""

from __future__ import annotations

import asyncio

from master.batch_pools import site_of
from master.config import MasterConfig
from master.config.batch_manager import BatchResourceManager
from master.pilot_pools import batch_sections
from provisioner.providers.batch.base import NoAnswer
from windlass.base.checks import Check, Status

NAME = "slurmrestd"
LIMIT_S = 15.0


async def rest_checks(config: MasterConfig) -> list[Check]:
    """One, or none where commands are used."""
    sections = batch_sections(config.pools())
    manager = config.resource_manager
    if isinstance(manager, BatchResourceManager):
        sections = [*sections, manager.provider("", scheme="http", port=config.port)]
    api = next((section.api for section in sections if section.api is not None), None)
    if api is None:
        return []
    site = site_of(sections)
    try:
        async with asyncio.timeout(LIMIT_S):
            found = await site.system.site()
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


def _failed(found: str, advice: str) -> Check:
    return Check(name=NAME, status=Status.FAILED, found=found, advice=advice)
