"""A way of keeping tasks apart. `probe` finds the one that works on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import agent_bootstrap.supervisor
from agent_bootstrap.protocol import IsolationKind

SUPERVISOR_DIR = Path(agent_bootstrap.supervisor.__file__).parent


@dataclass(frozen=True, slots=True)
class Isolation:
    """What was found to work; `note` says to operators what does not."""

    kind: IsolationKind = IsolationKind.DIRECTORY
    program: str = ""
    """bubblewrap's, where it is used."""
    note: str = ""

    @property
    def private_root(self) -> bool:
        return self.kind is not IsolationKind.DIRECTORY
