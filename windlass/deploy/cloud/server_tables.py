"""Tables of the servers' code that the client uses without importing it: found by entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from windlass.base.errors import NotFound
from windlass.base.packages import DISTRIBUTION


def loaded(group: str, cloud: str) -> Any:
    """Raises NotFound where the installation is older than this code."""
    for found in entry_points(group=f"windlass.{group}", name=cloud):
        return found.load()
    raise NotFound(f"table of {group}", cloud, f": install {DISTRIBUTION} again")
