"""Compute Engine in one region of one project, for all pools that buy there."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date

from provisioner.money.fresh_prices import FreshPrice
from provisioner.money.price_book import PriceBook
from provisioner.providers.base import (
    FoundInstance,
    FoundState,
    Inventory,
    LaunchAnswer,
    LaunchIntent,
    LimitedCall,
    Rate,
)
from provisioner.providers.cloud_provider import CloudProvider, check_size
from provisioner.providers.gcp.catalogue import Catalogue, learn
from provisioner.providers.gcp.client import GceError, GcpClient
from provisioner.providers.gcp.errors import refused_call
from provisioner.providers.gcp.handles import LaunchHandle
from provisioner.providers.gcp.images import make_image, remove_image
from provisioner.providers.gcp.labels import CLUSTER, POOL, filter_of, value_of
from provisioner.providers.gcp.launches import GcpLaunches
from provisioner.providers.gcp.machines import (
    GceMachine,
    MachinePage,
    groups_of,
    page_of,
    with_last_words,
)
from provisioner.providers.gcp.names import region_of
from provisioner.providers.gcp.offers import expected_offers, facts_of, offers_of
from provisioner.providers.gcp.prices import list_prices
from provisioner.providers.gcp.request import properties
from provisioner.providers.gcp.site import NAME_PREFIX, GcpSite
from provisioner.providers.images import ImageAnswer, ImageOrder
from provisioner.sections.gcp import GcpMachines, GcpSection
from provisioner.types import Market, Offer, Scope
from windlass.base.clock import Clock
from windlass.base.errors import ProviderError
from windlass.base.formats.json_types import JsonMapping

log = logging.getLogger(__name__)

MAX_USER_DATA = 256 * 1024
CONSOLE_CHARS = 400
PAGE = 500
_PLACEMENT_EXISTS = ("alreadyExists", "409")

UserData = Callable[[LaunchIntent, Sequence[str]], str]
"""What the machines of a launch run first, and their names. Made of the intent and its `request["boot"]` alone."""


class GcpProvider(CloudProvider[GcpSection, Catalogue, GcpClient]):
    image_key = "boot_disk_source_image"

    def __init__(
        self,
        *,
        site: GcpSite,
        pools: Sequence[GcpMachines],
        cluster_id: str,
        clock: Clock,
        prices: PriceBook,
        user_data: UserData,
    ) -> None:
        super().__init__(
            client=GcpClient(site), pools=pools, cluster_id=cluster_id, clock=clock, prices=prices
        )
        self._site = site
        self._user_data = user_data
        self._launches = GcpLaunches(self._client, site.name)
        self._zones: dict[str, str] = {}
        """Name of a machine -> its zone."""
        self._stopped: dict[str, str] = {}
        """Name of a machine that stopped -> what its console said last."""

    @property
    def name(self) -> str:
        return self._site.name

    @property
    def rates(self) -> Mapping[LimitedCall, Rate]:
        """Below the quotas per project and minute that Google sets at first, which others use, too."""
        return {
            LimitedCall.LAUNCH: Rate(burst=10, per_s=2.0),
            LimitedCall.TERMINATE: Rate(burst=10, per_s=2.0),
        }

    async def list_prices(self, today: date) -> Sequence[FreshPrice]:
        known = self._catalogue
        if known is None:
            raise ProviderError(f"it is not known yet what {self.name} sells")
        kinds = [x.section.instance_type for x in self._pools]
        bought = [(x, facts_of(x, known, self._prices)) for x in kinds]
        async with _asking():
            return await list_prices(self._client, self._site.region, bought, today)

    async def make_image(self, order: ImageOrder) -> ImageAnswer:
        async with _asking():
            return await make_image(self._client, order, order.key.zone)

    async def remove_image(self, order: ImageOrder) -> bool:
        async with _asking():
            return await remove_image(self._client, order)

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        machines, catalogue = self._bought(intent)
        section = machines.section
        facts = facts_of(section.instance_type, catalogue, self._prices)
        made = properties(intent.offer.key, section, facts, self._client.project)
        return {
            "properties": made,
            "name_prefix": section.name_prefix or NAME_PREFIX,
            "boot": dict(machines.boot),
        }

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        handle = LaunchHandle.of(intent, intent.request["name_prefix"])
        user_data = self._user_data(intent, handle.names)
        check_size(user_data, intent, MAX_USER_DATA, "Google")
        self._zones |= dict.fromkeys(handle.names, handle.zone)
        return await self._launches.launch(intent, handle, user_data)

    async def answer(self, handle: str) -> LaunchAnswer:
        return await self._launches.answer(handle)

    async def cancel(self, handle: str) -> None:
        await self._launches.cancel(handle)

    async def list(self) -> Inventory:
        machines, found, unseen = await self._listed()
        self._zones = {machine.name: machine.zone for machine in machines}
        ended = [x for x in machines if x.is_over and not self._may_start(x)]
        await self._clear_away(ended)
        return Inventory(
            instances=tuple(
                with_last_words(each, self._stopped.get(each.instance_id, "")) for each in found
            ),
            groups=tuple(groups_of(machines)),
            unseen={Scope(provider=self.name, zone=zone): why for zone, why in unseen.items()},
        )

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        unknown = {name for name in instance_ids if name not in self._zones}
        if unknown:
            machines, _, unseen = await self._listed()
            self._zones |= {machine.name: machine.zone for machine in machines}
            lost = sorted(unknown - self._zones.keys())
            if lost and unseen:
                zones = ", ".join(sorted(unseen))
                raise ProviderError(f"{', '.join(lost)} may be in {zones}, which cannot be listed")
        known = {name: self._zones[name] for name in instance_ids if name in self._zones}
        left = await self._launches.delete(known)
        if left:
            raise ProviderError("; ".join(left))

    async def stop(self, instance_id: str) -> None:
        await self._launches.stop(instance_id, await self._zone_of(instance_id))

    async def start(self, instance_id: str, offer: Offer) -> None:
        await self._launches.start(instance_id, await self._zone_of(instance_id), offer)

    async def _zone_of(self, instance_id: str) -> str:
        if instance_id not in self._zones:
            machines, _, unseen = await self._listed()
            self._zones |= {machine.name: machine.zone for machine in machines}
            if instance_id not in self._zones and unseen:
                raise TimeoutError(f"{instance_id} may be in a zone that cannot be listed")
        if instance_id not in self._zones:
            raise ProviderError(f"{instance_id} does not exist")
        return self._zones[instance_id]

    def _may_start(self, machine: GceMachine) -> bool:
        """Its pool stops machines: others that do not run any more are deleted."""
        pool = value_of(machine.labels, POOL)
        may = any(x.pool == pool and x.may_stop for x in self._pools)
        return may and machine.key.market is Market.ON_DEMAND and not machine.is_spot

    async def console(self, instance_id: str) -> str:
        """What a machine wrote to its serial port last, in one line; empty: nothing, or it is unknown."""
        zone = self._zones.get(instance_id)
        if zone is None:
            return ""
        async with _asking():
            said = await self._client.call(
                "Instances", "get_serial_port_output", zone=zone, instance=instance_id
            )
        lines = [" ".join(line.split()) for line in said.contents.splitlines()]
        text = " | ".join(line for line in lines if line)[-CONSOLE_CHARS:]
        return "".join(char for char in text if char.isprintable())

    async def _listed(self) -> MachinePage:
        """Of this region, and the zones of it that are not in the list."""
        async with _asking():
            pages = await self._client.read(
                "Instances",
                "aggregated_list",
                page_of,
                filter=filter_of(self._cluster_id, self.name),
                max_results=PAGE,
            )
        unseen = {zone: why for page in pages for zone, why in page.unseen.items()}
        return MachinePage(
            machines=[machine for page in pages for machine in page.machines],
            found=self._with_stopped(pages),
            unseen={z: why for z, why in unseen.items() if region_of(z) == self._site.region},
        )

    def _with_stopped(self, pages: Sequence[MachinePage]) -> Sequence[FoundInstance]:
        off = {m.name for page in pages for m in page.machines if m.is_over and self._may_start(m)}
        return [
            replace(each, state=FoundState.STOPPED) if each.instance_id in off else each
            for page in pages
            for each in page.found
        ]

    async def _clear_away(self, stopped: Sequence[GceMachine]) -> None:
        """Machines that ended by themselves still have a disk: their last words are kept, and they are deleted."""
        for machine in stopped:
            if machine.name not in self._stopped:
                self._stopped[machine.name] = await self._last_words(machine.name)
        self._stopped = {m.name: self._stopped[m.name] for m in stopped}
        for why in await self._launches.delete({m.name: m.zone for m in stopped}):
            log.warning("still billing the disk of a machine that stopped: %s", why)

    async def _last_words(self, instance_id: str) -> str:
        try:
            return await self.console(instance_id)
        except (ProviderError, OSError) as error:
            return f"its console cannot be read: {error}"

    async def _learn(self) -> Catalogue:
        now = self._clock.now().timestamp()
        async with _asking():
            return await learn(
                self._client, self._site.region, [x.section for x in self._pools], now
            )

    def _offers_of(self, machines: GcpMachines, catalogue: Catalogue) -> Sequence[Offer]:
        return offers_of(self._site, machines, catalogue, self._prices)

    def _expected_offers(self, machines: GcpMachines) -> Sequence[Offer]:
        return expected_offers(self._site, machines, self._prices)

    def _for_image(self, machines: GcpMachines) -> GcpMachines:
        return machines.but(markets=(Market.ON_DEMAND,), reservations=(), placement_policy="")

    async def _make_placement(self) -> None:
        for policy in sorted({x.section.placement_policy for x in self._pools} - {""}):
            body = {
                "name": policy,
                # Policies cannot be labelled.
                "description": f"{CLUSTER}={self._cluster_id}",
                "group_placement_policy": {"collocation": "COLLOCATED"},
            }
            try:
                await self._client.call(
                    "ResourcePolicies",
                    "insert",
                    region=self._site.region,
                    resource_policy_resource=body,
                )
            except GceError as error:
                if error.code not in _PLACEMENT_EXISTS:
                    # Launches with it say what is wrong: it may exist, and not be ours to make.
                    log.warning("placement policy %s: %s", policy, refused_call(error))


@asynccontextmanager
async def _asking() -> AsyncIterator[None]:
    try:
        yield
    except GceError as error:
        raise refused_call(error) from None
