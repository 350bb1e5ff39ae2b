"""What the providers of clouds share: pools that buy by one catalogue, which is learned again every few minutes."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from provisioner.capacity.refusals import BlockKind
from provisioner.money.price_book import PriceBook
from provisioner.providers.base import LaunchIntent
from provisioner.providers.errors import Refusal
from provisioner.providers.images import is_bake
from provisioner.sections.cloud import PoolMachines, SectionT
from provisioner.types import Offer
from windlass.base.clock import Clock
from windlass.base.errors import ProviderError

REFRESH_S = 300.0

log = logging.getLogger(__name__)


class _Client(Protocol):
    def open(self) -> None: ...

    def close(self) -> None: ...


CatalogueT = TypeVar("CatalogueT")
ClientT = TypeVar("ClientT", bound=_Client)


class CloudProvider(ABC, Generic[SectionT, CatalogueT, ClientT]):
    """Calls go to threads; what is for sale is asked every few minutes, and remembered in between."""

    list_every_s = 10.0
    list_grace_s = 60.0

    def __init__(
        self,
        *,
        client: ClientT,
        pools: Sequence[PoolMachines[SectionT]],
        cluster_id: str,
        clock: Clock,
        prices: PriceBook,
    ) -> None:
        self._client = client
        self._pools = tuple(pools)
        self._cluster_id = cluster_id
        self._clock = clock
        self._prices = prices
        self._catalogue: CatalogueT | None = None
        self._offers: dict[str, tuple[Offer, ...]] = {}

    @property
    @abstractmethod
    def name(self) -> str:
        """As of `Provider`."""

    @abstractmethod
    async def _learn(self) -> CatalogueT:
        """What is for sale. Raises ProviderError."""

    @abstractmethod
    def _offers_of(
        self, machines: PoolMachines[SectionT], catalogue: CatalogueT
    ) -> Sequence[Offer]: ...

    @abstractmethod
    def _expected_offers(self, machines: PoolMachines[SectionT]) -> Sequence[Offer]:
        """As configured, by the facts of the price book."""

    @abstractmethod
    def _for_image(self, machines: PoolMachines[SectionT]) -> PoolMachines[SectionT]:
        """One machine that nobody takes back, and that needs no other near it."""

    @abstractmethod
    async def _make_placement(self) -> None:
        """What keeps machines of pools that want it close to each other."""

    def offers(self, pool: str) -> Sequence[Offer] | None:
        if not any(self._of(pool)):
            return ()
        return None if self._catalogue is None else self._offers.get(pool, ())

    def could_offer(self, pool: str) -> Sequence[Offer]:
        return [offer for machines in self._of(pool) for offer in self._expected_offers(machines)]

    def bake_offers(self, pool: str) -> Sequence[Offer]:
        known = self._catalogue
        if known is None:
            return ()
        makers = [self._for_image(machines) for machines in self._of(pool)]
        return [offer for machines in makers for offer in self._offers_of(machines, known)]

    async def open(self) -> None:
        self._client.open()
        if self._catalogue is None:
            await self._refresh()
            await self._make_placement()

    async def run(self) -> None:
        """Keep what is for sale up to date. A failure leaves what is known."""
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self._refresh()
            except (ProviderError, OSError) as error:
                log.warning("what %s sells cannot be asked: %s", self.name, error)

    async def close(self) -> None:
        self._client.close()

    def use(self, prices: PriceBook) -> None:
        """From now on."""
        self._prices = prices
        if self._catalogue is not None:
            self._offer(self._catalogue)

    async def _refresh(self) -> None:
        self._catalogue = await self._learn()
        self._offer(self._catalogue)

    def _offer(self, catalogue: CatalogueT) -> None:
        offers: dict[str, tuple[Offer, ...]] = {}
        for machines in self._pools:
            more = self._offers_of(machines, catalogue)
            offers[machines.pool] = (*offers.get(machines.pool, ()), *more)
        self._offers = offers

    def _bought(self, intent: LaunchIntent) -> tuple[PoolMachines[SectionT], CatalogueT]:
        """By which machines of a pool, and by what was for sale. Raises ProviderError."""
        kind = (intent.pool, intent.offer.key.instance_type)
        machines = next((x for x in self._pools if (x.pool, x.section.kind) == kind), None)
        if machines is None or self._catalogue is None:
            raise ProviderError(f"pool {intent.pool} buys no {intent.offer.key.instance_type} here")
        return (
            self._for_image(machines) if is_bake(intent.intent_id) else machines,
            self._catalogue,
        )

    def _of(self, pool: str) -> Iterator[PoolMachines[SectionT]]:
        return (machines for machines in self._pools if machines.pool == pool)


def check_size(user_data: str, intent: LaunchIntent, limit: int, who: str) -> None:
    """Raises Refusal. `who` takes no more than `limit` bytes."""
    size = len(user_data.encode())
    if size > limit:
        raise Refusal(
            BlockKind.CONFIG,
            f"user data of pool {intent.pool} has {size} bytes: {who} takes {limit}",
        )
