"""Ending the machines that a master launched, once it can launch no more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from windlass.base.errors import ProviderError
from windlass.base.formats.plurals import counted
from windlass.deploy.cloud.terraform import Say

PAUSE_S = 5.0
PATIENCE_S = 900.0


class ClusterMachines(Protocol):
    """The machines of one cluster, by its tag."""

    def masters(self) -> Sequence[str]:
        """Addresses of those with its name that exist, whoever made them. Raises ProviderError."""
        ...

    def listed(self) -> Sequence[str]:
        """Those of pools: all that exist or are ending. Raises ProviderError."""
        ...

    def end(self, ids: Sequence[str]) -> None:
        """Those that do not exist any more are no error."""
        ...


def end_all(machines: ClusterMachines, say: Say, *, pause_s: float = PAUSE_S) -> None:
    """Until none is listed. What cannot be ended is an error: it would go on costing money."""
    until = time.monotonic() + PATIENCE_S
    while left := machines.listed():
        if time.monotonic() > until:
            late = f"{counted(len(left), 'machine')} did not end within {PATIENCE_S:.0f} s"
            raise ProviderError(f"{late}: {', '.join(left)}; run down again")
        say(f"Ending {counted(len(left), 'machine')} of pools")
        machines.end(left)
        time.sleep(pause_s)
