"""What of a configuration depends on what the agents of its pool can do: told at submission, where it is known."""

from __future__ import annotations

from master.core.expconf.environment import CONTAINERS, PROCESSES, Image
from rm_backends.base import Abilities


def having(image: Image, able: Abilities | None) -> tuple[str, ...]:
    """For `keys_without_effect`, of work with that image. Where nobody knows, nothing is said against a key."""
    if able is None:
        return CONTAINERS, PROCESSES
    if not able.containers:
        return (PROCESSES,)
    return (CONTAINERS, PROCESSES) if image == Image() else (CONTAINERS,)


def runs_image(image: Image, able: Abilities | None) -> bool:
    """Somebody named one, and it may be run."""
    return image != Image() and CONTAINERS in having(image, able)
