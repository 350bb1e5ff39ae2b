"""The GCP provider in the contract suite: the real client of Google against our fake."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from provisioner.capacity.refusals import BlockKind
from provisioner.money.price_book import open_book
from provisioner.providers.base import LaunchIntent, LimitedCall
from provisioner.providers.gcp.provider import GcpProvider
from provisioner.providers.gcp.site import GcpSite
from provisioner.sections.gcp import GcpMachines
from provisioner.types import Market, Offer
from tests.contract.providers.base import LIST_EVERY_S, LIST_GRACE_S, POOL, QUOTA, ProviderCase
from tests.fakes.fleet_world import CLUSTER
from tests.fakes.gce import FakeGce, Fault, Which, fake_gce
from tests.fakes.pool_machines import gcp_machines
from windlass.base.clock import SystemClock

KIND = gcp_machines(
    POOL,
    machine_type="a2-highgpu-2g",
    usd_per_hour=3.0,
    zones=["us-central1-a", "us-central1-b"],
)
KINDS = (
    KIND,
    gcp_machines(POOL, machine_type="a2-highgpu-1g", markets=["spot"], zones=["us-central1-c"]),
)
MODELS = {Market.SPOT: "SPOT"}
REFUSALS = {
    BlockKind.CAPACITY: Fault(
        code="ZONE_RESOURCE_POOL_EXHAUSTED",
        message="The zone 'projects/acme/zones/us-central1-a' does not have enough resources "
        "available to fulfill the request.  Try a different zone, or try again later.",
    ),
    BlockKind.UNSUPPORTED: Fault(
        status=400,
        code="invalid",
        message="Invalid value for field 'resource.machineType'. Machine type with name "
        "'a2-highgpu-2g' does not exist in zone 'us-central1-a'.",
    ),
    BlockKind.RESERVATION: Fault(
        code="RESERVATION_CAPACITY_EXCEEDED",
        message="The reservation has no room for the requested instances.",
    ),
    BlockKind.QUOTA: Fault(
        status=403,
        code="quotaExceeded",
        message=f"Quota '{QUOTA[0]}' exceeded.  Limit: {QUOTA[1]} in region us-central1.",
    ),
    BlockKind.NETWORK: Fault(
        code="IP_SPACE_EXHAUSTED",
        message="IP space of 'projects/acme/regions/us-central1/subnetworks/a' is exhausted.",
    ),
    BlockKind.PLACEMENT: Fault(
        code="RESOURCE_POLICY_LIMIT", message="The placement policy takes no more instances."
    ),
    BlockKind.THROTTLED: Fault(
        status=429, code="rateLimitExceeded", message="Quota exceeded for quota metric 'Queries'."
    ),
    BlockKind.CONFIG: Fault(
        status=403,
        code="forbidden",
        message="Required 'compute.instances.create' permission for 'projects/acme'",
    ),
    BlockKind.AUTH: Fault(
        status=401, code="authError", message="Request had invalid authentication credentials."
    ),
    BlockKind.TRANSIENT: Fault(status=503, code="backendError", message="Internal error."),
    BlockKind.UNKNOWN: Fault(code="NEVER_SEEN", message="Something nobody has seen before."),
}
UNAVAILABLE = REFUSALS[BlockKind.TRANSIENT]
ACTIONS = {
    LimitedCall.LAUNCH: "launch",
    LimitedCall.LIST: "list",
    LimitedCall.TERMINATE: "terminate",
}


def which_of(offer: Offer) -> Which:
    key = offer.key
    model = MODELS.get(key.market, "STANDARD")
    return Which(zone=key.zone, machine_type=key.instance_type, model=model)


class GcpCase(ProviderCase):
    provider: GcpProvider

    def __init__(self, fake: FakeGce, tokens: list[str]) -> None:
        self.fake = fake
        self.tokens = tokens
        self.kinds = KINDS
        self.provider = self.made(KINDS)

    def stoppable(self) -> Offer:
        """As with `stopped_agents`: without it machines that stop are deleted."""
        self.kinds = tuple(replace(kind, may_stop=True) for kind in KINDS)
        self.provider._pools = self.kinds
        assert self.provider._catalogue is not None
        self.provider._offer(self.provider._catalogue)
        return super().stoppable()

    def no_starts(self, offer: Offer) -> None:
        self.fake.faults.no_starts = REFUSALS[BlockKind.CAPACITY]

    def made(self, kinds: Sequence[GcpMachines]) -> GcpProvider:
        provider = GcpProvider(
            site=GcpSite(
                name="acme", project="acme", region="us-central1", endpoint_url=self.fake.url
            ),
            pools=kinds,
            cluster_id=CLUSTER,
            clock=SystemClock(),
            prices=open_book(None),
            user_data=user_data,
        )
        provider.list_every_s, provider.list_grace_s = LIST_EVERY_S, LIST_GRACE_S
        return provider

    async def restart(self) -> None:
        await self.provider.close()
        self.provider = self.made(self.kinds)
        await self.provider.open()

    def reconfigure(self) -> None:
        other = "projects/acme/global/images/windlass-1"
        self.provider._pools = tuple(kind.but(boot_disk_source_image=other) for kind in KINDS)

    def kill(self, instance_id: str) -> None:
        self.fake.cloud.stop(instance_id)

    def mend(self) -> None:
        self.fake.cloud.mend()

    def refuse(self, offer: Offer, kind: BlockKind) -> None:
        self.fake.faults.refused[which_of(offer)] = REFUSALS[kind]

    def stock(self, offer: Offer, machines: int) -> None:
        self.fake.faults.stock[which_of(offer)] = machines

    def queue(self, offer: Offer) -> None:
        self.fake.faults.held.add(which_of(offer))

    def deliver(self) -> None:
        self.fake.cloud.deliver()

    def lose_replies(self, times: int) -> None:
        self.fake.faults.lost_replies = times

    def drop_requests(self, times: int) -> None:
        self.fake.faults.dropped = times

    def throttle(self, api: LimitedCall, times: int) -> None:
        self.fake.faults.failing[ACTIONS[api]] = [REFUSALS[BlockKind.THROTTLED]] * times

    def fail_lists(self) -> None:
        self.fake.faults.always["list"] = UNAVAILABLE

    def hide(self, offer: Offer) -> None:
        self.fake.faults.unreachable.add(offer.key.zone)

    def hide_young(self, seconds: float) -> None:
        self.fake.faults.hide_young_s = seconds

    def fail_terminates(self, times: int) -> None:
        """Each machine is a call of its own; the suite ends two."""
        self.fake.faults.failing["terminate"] = [UNAVAILABLE] * 2 * times

    def hang(self, api: LimitedCall) -> None:
        self.fake.faults.hanging.add(ACTIONS[api])

    def write_console(self, instance_id: str, text: str) -> None:
        self.fake.cloud.named(instance_id).console = text

    def take_back(self, instance_id: str, seconds: float) -> None:
        """Maintenance of its host is announced, and ends machines that cannot be moved."""
        now = SystemClock().now().timestamp()
        self.fake.cloud.named(instance_id).maintenance_at = now + seconds
        if seconds <= 0:
            self.fake.cloud.stop(instance_id)


def user_data(intent: LaunchIntent, names: Sequence[str]) -> str:
    return "#!/bin/sh\n# join-me " + json.dumps([intent.intent_id, *names])


@asynccontextmanager
async def gcp_case(tmp_path: Path) -> AsyncIterator[GcpCase]:
    with fake_gce() as fake:
        case = GcpCase(fake, [])
        await case.provider.open()
        try:
            yield case
        finally:
            fake.cloud.mend()
            await case.provider.close()
