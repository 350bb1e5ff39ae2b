"""A bakery with one bake, for the shape of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from master.core.actor import Actor
from provisioner.images.records import BakeRecord, BakeState
from provisioner.types import Offer, OfferKey
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, NotFound

OFFER = Offer(
    key=OfferKey(
        provider="aws-us-east-1", region="us-east-1", zone="us-east-1a", instance_type="g5"
    ),
    slots=1,
    usd_per_hour=1.0,
    boot_s=60.0,
)


class OneBake:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made = [
            BakeRecord(
                id="bake-1",
                pool="default",
                offer=OFFER,
                name="windlass-default-1",
                image_key="image_id",
                by="admin",
                created_at=clock.now().timestamp(),
                state=BakeState.READY,
                image_id="ami-1",
                usd=0.25,
                ended_at=clock.now().timestamp() + 60,
            )
        ]

    def all(self) -> Sequence[BakeRecord]:
        return self.made

    async def begin(self, pool: str, instance_type: str = "", *, by: Actor) -> BakeRecord:
        if not self.made[0].is_over:
            raise Conflict(f"pool {pool} is being baked already")
        made = replace(
            self.made[0],
            id=f"bake-{len(self.made) + 1}",
            pool=pool,
            state=BakeState.INSTALLING,
            image_id="",
            by=str(by),
            note="being launched",
            ended_at=None,
        )
        self.made.insert(0, made)
        return made

    async def note_installed(self, instance_id: str) -> None:
        """That of its first."""
        self.made[0] = replace(self.made[0], state=BakeState.IMAGING)

    def is_served(self, bake_id: str) -> bool:
        return any(x.id == bake_id and x.state is BakeState.INSTALLING for x in self.made)

    async def cancel(self, bake_id: str, *, by: Actor) -> BakeRecord:
        for at, bake in enumerate(self.made):
            if bake.id == bake_id:
                self.made[at] = replace(
                    bake, state=BakeState.CLEANING, error=f"cancelled by {by}", note=""
                )
                return self.made[at]
        raise NotFound("bake", bake_id)
