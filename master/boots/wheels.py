"""Wheels of this release, for machines whose image has it not: made once, of what is installed here."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from windlass.base.errors import InvalidArgument, InvalidState, NotFound
from windlass.base.files import write_atomic
from windlass.install.wheels import Wheel, wheels_of_agents


class AgentWheels:
    """In a folder that is made anew by each master: what is installed here may be another release."""

    def __init__(
        self, folder: Path, *, make: Callable[[], Iterable[Wheel]] = wheels_of_agents
    ) -> None:
        self._folder = folder
        self._make = make
        self._lock = asyncio.Lock()
        self._digests: Mapping[str, str] | None = None

    async def digests(self) -> Mapping[str, str]:
        """Name -> SHA-256. Raises InvalidState where they cannot be made."""
        async with self._lock:
            if self._digests is None:
                self._digests = await asyncio.to_thread(self._write)
            return self._digests

    async def path(self, name: str) -> Path:
        """Raises NotFound."""
        if name not in await self.digests():
            raise NotFound("wheel", name)
        return self._folder / name

    def _write(self) -> dict[str, str]:
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True, mode=0o700)
            found = {}
            for wheel in self._make():
                write_atomic(self._folder / wheel.name, wheel.content)
                found[wheel.name] = hashlib.sha256(wheel.content).hexdigest()
        except (InvalidArgument, OSError) as error:
            raise InvalidState(f"this master cannot make wheels for machines: {error}") from error
        return found
