"""What a new machine is given for the token of its launch, and what it tells of its boot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import structlog

from agent_bootstrap.scripts.boot_files import BootSettings, archive
from master.boots.outputs import BootOutputs
from master.boots.wheels import AgentWheels
from provisioner.providers.images import is_bake
from rm_backends.ports import JoinGrant
from windlass.base.clock import Clock
from windlass.base.errors import PermissionDenied

log = structlog.get_logger(__name__)

MAX_STAGES = 10_000
"""Machines that are remembered at once; the oldest are forgotten."""
FAILED = "failed"
"""The stage in which a machine gives up, and ends itself."""
BAKED = "baked"
"""The stage in which the machine of an image has everything. It stops once it was answered."""


class NoteBoot(Protocol):
    def __call__(self, machine: str, words: str, /, *, failed: bool) -> None: ...


class ImageMachines(Protocol):
    """Machines that become images."""

    async def note_installed(self, instance_id: str, /) -> None:
        """It has everything. Returns once it is committed."""
        ...

    def is_served(self, bake_id: str, /) -> bool:
        """The machine of that bake is still being set up."""
        ...


class SettingsOf(Protocol):
    def __call__(self, pool: str, launch_id: str, /) -> BootSettings:
        """What the machines of that launch are set up with. Raises InvalidState."""
        ...


class LaunchTokens(Protocol):
    async def launch_of(self, name: str, token: str) -> JoinGrant:
        """What launched the machine of that name, which has not joined yet. Raises PermissionDenied, Conflict."""
        ...


@dataclass(frozen=True, slots=True)
class BootStage:
    """The last thing that a machine said before its agent connected. Nothing of it is verified but the machine."""

    name: str
    at: datetime
    words: str


class BootService:
    def __init__(
        self,
        *,
        joins: LaunchTokens,
        settings: SettingsOf,
        wheels: AgentWheels,
        outputs: BootOutputs,
        clock: Clock,
        note: NoteBoot | None = None,
        images: ImageMachines | None = None,
    ) -> None:
        """`note`: who else hears what machines say."""
        self._joins = joins
        self._settings = settings
        self._wheels = wheels
        self._outputs = outputs
        self._clock = clock
        self._note = note
        self._images = images
        self._stages: dict[str, BootStage] = {}

    async def files(self, machine: str, token: str) -> bytes:
        """All raise PermissionDenied, and Conflict for what may pass."""
        grant = await self._served(machine, token)
        log.info("machine fetched its boot files", machine=machine, pool=grant.pool)
        return archive(self._settings(grant.pool, grant.id), bake=is_bake(grant.id))

    async def wheels(self, machine: str, token: str) -> str:
        """As `sha256sum --check` reads it."""
        await self._served(machine, token)
        digests = await self._wheels.digests()
        return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))

    async def wheel(self, machine: str, token: str, name: str) -> Path:
        await self._served(machine, token)
        return await self._wheels.path(name)

    async def tell(self, machine: str, token: str, stage: str, words: str, detail: str) -> None:
        """One printable line each. `detail` may be secret: it is kept apart, and neither logged nor shown."""
        grant = await self._joins.launch_of(machine, token)
        while len(self._stages) >= MAX_STAGES:
            del self._stages[next(iter(self._stages))]
        self._stages.pop(machine, None)
        self._stages[machine] = BootStage(stage, self._clock.now(), words or stage)
        failed = stage == FAILED
        if self._note is not None:
            self._note(machine, words or stage, failed=failed)
        write = log.warning if failed else log.info
        write(
            "machine boots",
            machine=machine,
            pool=grant.pool,
            stage=stage,
            words=words,
            output=await self._kept(machine, detail),
        )
        if stage == BAKED and is_bake(grant.id) and self._images is not None:
            await self._images.note_installed(machine)

    async def _served(self, machine: str, token: str) -> JoinGrant:
        """A machine that joins spends its token; that of an image does when it has everything."""
        grant = await self._joins.launch_of(machine, token)
        if is_bake(grant.id) and (self._images is None or not self._images.is_served(grant.id)):
            raise PermissionDenied(
                f"'{machine}' is set up for its image no more: the token of its launch is spent"
            )
        return grant

    async def _kept(self, machine: str, detail: str) -> str:
        """Where an operator finds it."""
        if not detail:
            return ""
        try:
            return str(await self._outputs.keep(machine, detail))
        except OSError as error:
            return f"cannot be kept: {error}"

    def stage(self, machine: str) -> BootStage | None:
        return self._stages.get(machine)
