"""The partitions that a resource manager of type slurm or pbs makes pools of: asked for, and remembered.

A master asks at its start. While the batch system does not answer it starts with those that it knew last; they lie in
the data folder.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from master.config import MasterConfig
from master.config.partitions import Partition
from master.config.resource_managers import BatchResourceManager
from master.wiring.batch.pools import site_of
from provisioner.batch.base import NoAnswer, SiteFacts
from windlass.base.errors import InvalidState
from windlass.base.files import write_atomic

log = logging.getLogger(__name__)

FILE = "partitions.json"


@dataclass(frozen=True, slots=True)
class _Remembered:
    system: str
    partitions: tuple[Partition, ...]


_DOCUMENT = TypeAdapter(_Remembered)


async def with_site_partitions(config: MasterConfig, data_dir: Path) -> MasterConfig:
    """Raises InvalidState if nobody says what there is; InvalidConfig for names of no pool."""
    memory, manager = partition_memory(config, data_dir), config.resource_manager
    if memory is None or not isinstance(manager, BatchResourceManager):
        return config
    site = site_of([manager.provider("", scheme="http", port=config.port)])
    try:
        memory.note(await site.system.site())
    except NoAnswer as error:
        if not memory.known:
            raise InvalidState(
                f"the partitions of resource_manager are not known yet, and {error.message}: start the master when "
                f"{manager.type} answers; its commands are looked for in PATH and in resource_manager.path"
            ) from None
        log.warning("%s: the partitions are those that were there last", error.message)
    finally:
        await asyncio.to_thread(site.close)
    if not memory.known:
        raise InvalidState(
            f"{manager.type} shows this user no partition: ask the site whose account may use one"
        )
    complete = config.with_partitions(memory.known)
    for warning in complete.warnings[len(config.warnings) :]:
        log.warning(warning)
    return complete


class PartitionMemory:
    """What there was last, in a file."""

    def __init__(self, file: Path, system: str) -> None:
        self._file = file
        self._system = system
        self.known = self._read()

    def note(self, site: SiteFacts) -> Sequence[str]:
        """As the site told it now; the names that it did not have before. One that shows none changes nothing."""
        found = tuple(
            Partition(
                name=queue.name,
                is_default=queue.is_default,
                is_open=queue.is_open,
                has_gpus=queue.gpus_per_node > 0,
            )
            for queue in site.queues.values()
        )
        new = sorted({one.name for one in found} - {one.name for one in self.known})
        if found and found != self.known:
            self.known = found
            document = _DOCUMENT.dump_json(_Remembered(self._system, found))
            write_atomic(self._file, document, mode=0o600, durable=True)
        return new

    async def watch(self, site: SiteFacts) -> None:
        """While the master runs."""
        for name in await asyncio.to_thread(self.note, site):
            log.warning(
                "%s has a new partition %s: a restart makes a pool of it", self._system, name
            )

    def _read(self) -> tuple[Partition, ...]:
        try:
            found = _DOCUMENT.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, ValidationError):
            log.warning("%s cannot be read: partitions are asked for again", self._file)
            return ()
        return found.partitions if found.system == self._system else ()


def partition_memory(config: MasterConfig, data_dir: Path) -> PartitionMemory | None:
    """None: pools are as they are written."""
    manager = config.resource_manager
    if not isinstance(manager, BatchResourceManager):
        return None
    return PartitionMemory(data_dir / FILE, manager.type)
