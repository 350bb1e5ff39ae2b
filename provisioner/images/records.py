"""One bake: what is known of it, and how that is written down. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Any

from provisioner.providers.images import ImageOrder
from provisioner.types import Offer
from windlass.base.formats.strict_json import StrictJson


class BakeState(StrEnum):
    INSTALLING = "installing"
    IMAGING = "imaging"
    ENDING = "ending"
    """The image can be used; the machine is being ended."""
    CLEANING = "cleaning"
    """It failed or was cancelled: the machine is being ended, and what there is of an image removed."""
    READY = "ready"
    FAILED = "failed"


OVER = (BakeState.READY, BakeState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeRecord:
    """`id` is that of the launch of its machine."""

    id: str
    pool: str
    offer: Offer
    name: str
    """Of the image."""
    image_key: str
    """The key of the provider section that takes the image."""
    by: str
    created_at: float
    state: BakeState = BakeState.INSTALLING
    instance_id: str = ""
    installed_at: float | None = None
    """Since when an image may exist."""
    image_id: str = ""
    error: str = ""
    usd: float = 0.0
    """What its machine cost."""
    ended_at: float | None = None
    note: str = ""
    """What it waits for."""
    next_try_at: float = 0.0
    """When the provider is asked again; infinite while a call is under way."""
    is_removing: bool = False
    """Its machine is gone, and what there is of the image is being removed."""
    nothing_left_at: float | None = None
    """When nothing of the image was found for the first time."""
    refused_removals: int = 0
    """Tries to remove it since one was answered."""

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def order(self, cluster_id: str) -> ImageOrder:
        return ImageOrder(
            bake_id=self.id,
            cluster_id=cluster_id,
            pool=self.pool,
            name=self.name,
            instance_id=self.instance_id,
            key=self.offer.key,
        )


# Rebuilt by asking; not worth a commit when they change.
_VOLATILE = {"note", "next_try_at", "is_removing", "nothing_left_at", "refused_removals"}
_BAKES: StrictJson[BakeRecord] = StrictJson(BakeRecord)


def bake_document(bake: BakeRecord) -> dict[str, Any]:
    document: dict[str, Any] = _BAKES.dump(bake, exclude=_VOLATILE)
    return document


def bake_from_document(document: Mapping[str, Any]) -> BakeRecord:
    return _BAKES.load(document, f"bake {document.get('id')}")


def due_images(bakes: Mapping[str, BakeRecord], now: float) -> list[BakeRecord]:
    """Whose image is to be made or looked at, or removed."""
    return [
        bake
        for bake in bakes.values()
        if (bake.state is BakeState.IMAGING or bake.is_removing) and bake.next_try_at <= now
    ]


def asked_for_images(
    bakes: Mapping[str, BakeRecord], asked: Sequence[BakeRecord]
) -> dict[str, BakeRecord]:
    """With calls about these under way."""
    return {**bakes, **{bake.id: replace(bake, next_try_at=inf) for bake in asked}}
