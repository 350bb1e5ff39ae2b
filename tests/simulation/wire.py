"""The way from a master to the provider: calls take time, and arrive even if their caller is dead by then."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from provisioner.providers.base import Inventory, LaunchAnswer, LaunchIntent, LimitedCall, Rate
from provisioner.types import Offer
from tests.fakes.simulated_provider import SimulatedProvider
from tests.simulation.invariants import Invariants
from tests.simulation.process import MasterProcess
from windlass.base.formats.json_types import JsonMapping

T = TypeVar("T")

SLOWEST_S = 1.0
"""One way."""


class Wire:
    """Belongs to the world: what was sent over it is carried out even if the process that sent it is killed."""

    def __init__(
        self,
        seed: int,
        provider: SimulatedProvider,
        invariants: Invariants,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.provider = provider
        self.invariants = invariants
        self._tasks = tasks
        self._random = random.Random(f"wire {seed} {provider.name}")
        self._context = contextvars.copy_context()
        self._calls: dict[asyncio.Task[Any], None] = {}

    def of(self, process: MasterProcess) -> WiredProvider:
        return WiredProvider(self, process)

    def close(self) -> None:
        """Forget calls that are never answered."""
        for call in list(self._calls):
            call.cancel()

    async def carry(self, call: Callable[[], Awaitable[T]]) -> T:
        """To the provider and back."""
        task = self._tasks.create_task(self._carry_out(call), context=self._context)
        self._calls[task] = None
        task.add_done_callback(lambda t: self._calls.pop(t, None))
        answer = await asyncio.shield(task)
        await asyncio.sleep(self._random.uniform(0.05, SLOWEST_S))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _carry_out(self, call: Callable[[], Awaitable[T]]) -> T | Exception:
        await asyncio.sleep(self._random.uniform(0.05, SLOWEST_S))
        try:
            return await call()
        except Exception as error:  # noqa: BLE001 - travels back as an answer
            return error


class WiredProvider:
    """The provider as one process of the master reaches it."""

    def __init__(self, wire: Wire, process: MasterProcess) -> None:
        self._wire = wire
        self._process = process

    @property
    def name(self) -> str:
        return self._wire.provider.name

    @property
    def list_grace_s(self) -> float:
        return self._wire.provider.list_grace_s

    @property
    def list_every_s(self) -> float:
        return 1.0

    def offers(self, pool: str) -> Sequence[Offer] | None:
        return self._wire.provider.offers(pool)

    def could_offer(self, pool: str) -> Sequence[Offer]:
        return self._wire.provider.could_offer(pool)

    async def open(self) -> None:
        """It is there."""

    async def run(self) -> None:
        """Nothing goes on in the background."""

    async def close(self) -> None:
        """The world closes it."""

    @property
    def rates(self) -> Mapping[LimitedCall, Rate]:
        return self._wire.provider.rates

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        return self._wire.provider.freeze(intent)

    async def answer(self, handle: str) -> LaunchAnswer:
        self._process.touch_outside()
        return await self._wire.carry(lambda: self._wire.provider.answer(handle))

    async def cancel(self, handle: str) -> None:
        self._process.touch_outside()
        await self._wire.carry(lambda: self._wire.provider.cancel(handle))

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        self._process.touch_outside()
        self._wire.invariants.before_launch(intent)
        answer = self._process.spawn(self._wire.carry(lambda: self._wire.provider.launch(intent)))
        await asyncio.sleep(0)
        self._wire.invariants.after_launch(self._process)
        return await answer

    async def list(self) -> Inventory:
        self._process.touch_outside()
        return await self._wire.carry(self._wire.provider.list)

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        self._process.touch_outside()
        await self._wire.carry(lambda: self._wire.provider.terminate(instance_ids))

    async def stop(self, instance_id: str) -> None:
        self._process.touch_outside()
        await self._wire.carry(lambda: self._wire.provider.stop(instance_id))

    async def start(self, instance_id: str, offer: Offer) -> None:
        self._process.touch_outside()
        await self._wire.carry(lambda: self._wire.provider.start(instance_id, offer))

    async def console(self, instance_id: str) -> str:
        self._process.touch_outside()
        return await self._wire.carry(lambda: self._wire.provider.console(instance_id))
