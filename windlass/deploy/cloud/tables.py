"""Tables of the servers' code that the client uses without importing it: found by entry points."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Any

from windlass.base.errors import NotFound
from windlass.base.packages import DISTRIBUTION
from windlass.base.permissions import Permission

ALWAYS = ("bake", "price_refresh", "spot", "stopped_agents", "volume_keys")
"""What no key of a section asks for (stopping is less than ending), and clusters that are deployed may do."""


def loaded(group: str, cloud: str) -> Any:
    """Raises NotFound where the installation is older than this code."""
    for found in entry_points(group=f"windlass.{group}", name=cloud):
        return found.load()
    raise NotFound(f"table of {group}", cloud, f": install {DISTRIBUTION} again")


def declared(cloud: str) -> tuple[Permission, ...]:
    """What a master may do there: the calls that its provider makes."""
    permissions: tuple[Permission, ...] = loaded("permissions", cloud)
    return permissions


def needed(permissions: Iterable[Permission], features: Iterable[str] = ()) -> list[Permission]:
    wanted = {"", *features}
    return [each for each in permissions if each.feature in wanted]
