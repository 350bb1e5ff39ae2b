"""Images of machines: what a provider can do that makes them. An ability: not every provider has it.

The machine of an image is launched by `Provider.launch` like any other. The id of its launch says what it is for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from provisioner.types import Offer, OfferKey

BAKE = "bake-"
MAX_POOL_CHARS = 30


def is_bake(launch_id: str) -> bool:
    """Whether the machine of that launch is set up for an image, and never works."""
    return launch_id.startswith(BAKE)


def image_name(pool: str, bake_id: str) -> str:
    """Good for every cloud: lower case, digits and `-`, 63 at most."""
    plain = re.sub(r"[^a-z0-9]+", "-", pool.lower()).strip("-")[:MAX_POOL_CHARS].strip("-")
    unique = bake_id.removeprefix(BAKE).replace("-", "")[:12]
    return "-".join(part for part in ("windlass", plain, unique) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOrder:
    """One image. Its name is its own: what exists is found by it, whatever became of earlier calls."""

    bake_id: str
    cluster_id: str
    pool: str
    name: str
    instance_id: str
    key: OfferKey
    """Of the machine."""


class ImageState(StrEnum):
    WAITING = "waiting"
    """For its machine to stop."""
    MAKING = "making"
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAnswer:
    state: ImageState
    image_id: str = ""
    """As the operator writes it into master.yaml. Of READY."""
    note: str = ""


@runtime_checkable
class MakesImages(Protocol):
    @property
    def image_key(self) -> str:
        """The key of a provider section that takes such an image."""
        ...

    def bake_offers(self, pool: str) -> Sequence[Offer]:
        """What the machine of an image may be bought as: on demand, for it is stopped and must not be taken back."""
        ...

    async def make_image(self, order: ImageOrder) -> ImageAnswer:
        """Begin once the machine has stopped, and say how far it is. Called until READY.

        Raises ProviderError if nothing will come of it; `TimeoutError` and `OSError` mean that nobody knows.
        """
        ...

    async def remove_image(self, order: ImageOrder) -> bool:
        """Remove it and its copies of disks. Whether nothing was there any more. Called until then."""
        ...
