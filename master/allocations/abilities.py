"""What of a configuration depends on what the agents of its pool can do: told at submission, where it is known."""

from __future__ import annotations

from master.core.expconf.environment import CONTAINERS, Image
from rm_backends.base import Abilities


def having(able: Abilities | None) -> tuple[str, ...]:
    """For `keys_without_effect`. Where nobody knows, nothing is said against a key."""
    return (CONTAINERS,) if able is None or able.containers else ()


def runs_image(image: Image, able: Abilities | None) -> bool:
    """Somebody named one, and it may be run."""
    return image != Image() and CONTAINERS in having(able)
