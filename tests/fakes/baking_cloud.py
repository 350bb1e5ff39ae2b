"""A simulated cloud that makes images, and a machine that says that it has all and stops, as ours do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from provisioner.providers.base import FoundInstance, FoundState
from provisioner.providers.images import ImageAnswer, ImageOrder, ImageState, is_bake
from provisioner.types import Market, Offer
from tests.fakes.fleet_world import FleetWorld
from tests.fakes.simulated_provider import SimulatedInstance, SimulatedProvider
from windlass.base.errors import ProviderError, StoreUnavailable

IMAGE_S = 300.0
INSTALL_S = 100.0


@dataclass
class Images:
    made: dict[str, float] = field(default_factory=dict)
    """Name -> when it can be used."""
    copies: set[str] = field(default_factory=set)
    """Names of images whose copies of disks are there."""
    refuses: str = ""
    """What is said instead of making one."""
    unanswered: int = 0
    """So many calls are carried out and then answered with a time-out."""
    fails_to_remove: int = 0


class BakingCloud(SimulatedProvider):
    image_key = "image_id"

    def __init__(self, world: FleetWorld, offers: Sequence[Offer]) -> None:
        super().__init__(
            offers=offers,
            clock=world.clock,
            cluster_id="test-cluster",
            on_boot=self._has_booted,
            on_end=world._ended,
        )
        self.images = Images()
        self.boot_fails = ""
        """What the machine says instead of installing anything."""
        self.is_silent = False
        self.stopped: set[str] = set()
        self._world = world
        self._machines: set[asyncio.Task[None]] = set()

    def list_now(self) -> Sequence[FoundInstance]:
        return [
            replace(x, state=FoundState.STOPPED) if x.instance_id in self.stopped else x
            for x in super().list_now()
        ]

    def bake_offers(self, pool: str) -> Sequence[Offer]:
        sold = self.offers(pool) or ()
        return [replace(x, key=replace(x.key, market=Market.ON_DEMAND)) for x in sold]

    async def make_image(self, order: ImageOrder) -> ImageAnswer:
        await self._arrive("make_image")
        if self.images.refuses:
            raise ProviderError(self.images.refuses)
        if order.name not in self.images.made:
            machine = self.instances[order.instance_id]
            if machine.ended_at is not None:
                raise ProviderError("its machine has ended")
            if order.instance_id not in self.stopped:
                return ImageAnswer(state=ImageState.WAITING, note="the machine is running")
            self.images.made[order.name] = self._now() + IMAGE_S
            self.images.copies.add(order.name)
        if self.images.unanswered > 0:
            self.images.unanswered -= 1
            raise TimeoutError("no reply")
        if self._now() < self.images.made[order.name]:
            return ImageAnswer(state=ImageState.MAKING, note="the image is being made")
        return ImageAnswer(state=ImageState.READY, image_id=f"ami-{order.name}")

    async def remove_image(self, order: ImageOrder) -> bool:
        await self._arrive("remove_image")
        if self.images.fails_to_remove > 0:
            self.images.fails_to_remove -= 1
            raise ProviderError("cannot be removed now")
        if self.images.made.pop(order.name, None) is not None:
            return False
        if order.name in self.images.copies:
            self.images.copies.discard(order.name)
            return False
        return True

    def _has_booted(self, instance: SimulatedInstance) -> None:
        if not is_bake(instance.intent.intent_id):
            self._world._booted(instance)
            return
        task = asyncio.get_running_loop().create_task(self._install(instance))
        self._machines.add(task)
        task.add_done_callback(self._machines.discard)

    async def _install(self, instance: SimulatedInstance) -> None:
        if self.is_silent:
            return
        if self.boot_fails:
            self._world.provisioner.note_boot(instance.id, self.boot_fails, failed=True)
            return
        self._world.provisioner.note_boot(instance.id, "installing windlass", failed=False)
        await asyncio.sleep(INSTALL_S)
        while instance.ended_at is None:
            try:
                async with asyncio.timeout(20):
                    await self._world.provisioner.bakery.note_installed(instance.id)
            except (TimeoutError, StoreUnavailable):
                await asyncio.sleep(5)
            else:
                self.stopped.add(instance.id)
                return
