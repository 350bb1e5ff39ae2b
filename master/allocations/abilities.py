"""What of a configuration depends on what the agents of its pool can do: told at submission, where it is known."""

from __future__ import annotations

from master.core.expconf.models.environment import CONTAINERS, PROCESSES, SHM_SIZES, Image
from rm_backends.base import Abilities


def having(image: Image, able: Abilities | None) -> tuple[str, ...]:
    """For `keys_without_effect`, of work with that image. Where nobody knows, nothing is said against a key."""
    if able is None:
        return CONTAINERS, PROCESSES, SHM_SIZES
    if not able.containers:
        return PROCESSES, SHM_SIZES
    if image == Image():
        return CONTAINERS, PROCESSES, SHM_SIZES
    return (CONTAINERS, SHM_SIZES) if able.shm_sizes else (CONTAINERS,)


def runs_image(image: Image, able: Abilities | None) -> bool:
    """Somebody named one, and it may be run."""
    return image != Image() and CONTAINERS in having(image, able)
