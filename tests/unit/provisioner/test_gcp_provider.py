"""The provider on our fake, by Google's client: what the contract suite of all providers does not say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from provisioner.capacity.refusals import BlockKind
from provisioner.money.price_book import open_book
from provisioner.providers.base import Accepted, FoundState, LaunchResult
from provisioner.providers.errors import Refusal
from provisioner.providers.gcp.client import GceError, GcpClient
from provisioner.providers.gcp.provider import GcpProvider
from provisioner.sections.gcp import (
    GcpMachine,
    GcpMachines,
    GcpNetwork,
    GcpServiceAccount,
)
from provisioner.types import Market, Offer
from tests.contract.providers.base import POOL, a_token
from tests.contract.providers.gcp import GcpCase
from tests.fakes.fleet_world import an_intent
from tests.fakes.gce import Fault, Which, fake_gce
from tests.fakes.pool_machines import gcp_machines

T4 = gcp_machines(
    POOL,
    machine_type="n1-standard-8",
    gpu_type="nvidia-tesla-t4",
    gpu_num=2,
    zones=["us-central1-a"],
    label_value="determined",
    network_interface={"network": "training", "subnetwork": "training-a", "external_ip": True},
    network_tags=["det-agent"],
    service_account={"email": "agents@acme.iam.gserviceaccount.com"},
    base_config={"minCpuPlatform": "Intel Skylake", "labels": {"team": "vision"}},
    max_run_duration="1h",
)


class World:
    """The provider of the contract suite, with other machines."""

    def __init__(self, case: GcpCase) -> None:
        self.case = case
        self.fake = case.fake
        self.provider = case.provider

    async def selling(self, *kinds: GcpMachines) -> GcpProvider:
        await self.provider.close()
        self.provider = self.case.made(kinds)
        await self.provider.open()
        return self.provider

    def offers(self) -> list[Offer]:
        return list(self.provider.offers(POOL) or ())

    async def launch(self, offer: Offer, count: int = 1) -> Any:
        intent = an_intent(offer, count, token=a_token())
        return await self.provider.launch(replace(intent, request=self.provider.freeze(intent)))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    with fake_gce() as fake:
        one = World(GcpCase(fake, []))
        await one.provider.open()
        yield one
        fake.cloud.mend()
        await one.provider.close()


async def test_gpus_are_attached_and_their_price_is_added(world: World) -> None:
    await world.selling(T4)
    (offer,) = world.offers()
    assert offer.key.instance_type == "n1-standard-8+2xnvidia-tesla-t4"
    assert (offer.slots, offer.gpu_model, offer.gpu_memory_mib) == (2, "T4", 15_360)
    assert offer.family == "NVIDIA_T4_GPUS"
    book = open_book(None)
    machine = book.price("gcp", "us-central1", "n1-standard-8").usd_per_hour
    assert offer.usd_per_hour == pytest.approx(machine + 2 * 0.35)
    assert offer.lifetime_s == 3600.0


async def test_a_machine_is_made_as_the_pool_says(world: World) -> None:
    await world.selling(T4)
    await world.launch(world.offers()[0])
    (machine,) = world.fake.cloud.living()
    body = machine.body
    assert body["minCpuPlatform"] == "Intel Skylake"
    assert body["labels"]["team"] == "vision"
    assert body["labels"]["managed-by"] == "determined"
    assert body["guestAccelerators"] == [
        {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 2}
    ]
    assert body["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": "STANDARD",
        "maxRunDuration": {"seconds": "3600"},
        "instanceTerminationAction": "DELETE",
    }
    (interface,) = body["networkInterfaces"]
    assert interface["subnetwork"].endswith("regions/us-central1/subnetworks/training-a")
    assert interface["accessConfigs"][0]["type"] == "ONE_TO_ONE_NAT"
    assert body["tags"] == {"items": ["det-agent"]}
    assert body["serviceAccounts"][0]["email"] == "agents@acme.iam.gserviceaccount.com"
    assert body["disks"][0]["initializeParams"]["diskSizeGb"] == "200"
    assert body["disks"][0]["autoDelete"] is True
    assert machine.user_data.startswith("#!/bin/sh")


async def test_every_market_has_its_model(world: World) -> None:
    kind = T4.but(markets=("spot", "on_demand", "queued"))
    await world.selling(kind)
    for offer in world.offers():
        await world.launch(offer)
    made = {
        machine.body["scheduling"]["provisioningModel"]: machine.body
        for machine in world.fake.cloud.living()
    }
    assert set(made) == {"SPOT", "STANDARD", "FLEX_START"}
    assert made["SPOT"]["scheduling"]["instanceTerminationAction"] == "DELETE"
    affinity = made["FLEX_START"]["reservationAffinity"]
    assert affinity == {"consumeReservationType": "NO_RESERVATION"}


@pytest.mark.parametrize(
    ("market", "metric", "left"),
    [
        (Market.ON_DEMAND, "NVIDIA_T4_GPUS", 6.0),
        (Market.SPOT, "PREEMPTIBLE_NVIDIA_T4_GPUS", 0.0),
        (Market.QUEUED, None, 0.0),
    ],
)
async def test_what_a_region_has_left_is_known(
    world: World, market: Market, metric: str | None, left: float
) -> None:
    world.fake.cloud.quotas = {"NVIDIA_T4_GPUS": 8, "PREEMPTIBLE_NVIDIA_T4_GPUS": 0, "CPUS": 1}
    world.fake.cloud.used = {"NVIDIA_T4_GPUS": 2}
    await world.selling(T4.but(markets=(market,)))
    (offer,) = world.offers()
    assert offer.least_billed_s == 60.0
    if metric is None or offer.quota is None:
        assert offer.quota is None
        return
    assert (offer.quota.name, offer.quota.left, offer.quota.each) == (metric, left, 2)
    assert offer.quota.counted_at


async def test_cpus_of_spot_machines_count_as_others_unless_the_project_asked(world: World) -> None:
    cpus = T4.but(
        instance_type=GcpMachine(machine_type="n1-standard-8", gpu_num=0), markets=("spot",)
    )
    for own, name in ((0.0, "CPUS"), (16.0, "PREEMPTIBLE_CPUS")):
        world.fake.cloud.quotas = {"CPUS": 64, "PREEMPTIBLE_CPUS": own}
        await world.selling(cpus)
        (offer,) = world.offers()
        assert offer.quota is not None
        assert (offer.quota.name, offer.quota.each) == (name, 8)


async def test_a_region_that_does_not_tell_its_quotas_sells_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = GcpClient.call

    async def refused(client: GcpClient, service: str, method: str, **request: Any) -> Any:
        if service == "Regions":
            raise GceError("forbidden", "Required 'compute.regions.get'", status=403)
        return await call(client, service, method, **request)

    monkeypatch.setattr(GcpClient, "call", refused)
    await world.selling(T4)
    assert [offer.quota for offer in world.offers()] == [None]


async def test_a_reservation_is_sold_first_and_only_when_it_is_ready(world: World) -> None:
    def reserved(status: str) -> list[dict[str, Any]]:
        properties = {"machineType": "a2-highgpu-2g"}
        sold = {"count": "2", "instanceProperties": properties}
        return [{"name": "r-1", "status": status, "specificReservation": sold}]

    kind = gcp_machines(
        POOL, machine_type="a2-highgpu-2g", reservations=["r-1"], markets=["on_demand"]
    )
    world.fake.cloud.reservations["us-central1-b"] = reserved("CREATING")
    await world.selling(kind.but(markets=()))
    assert not world.offers()
    world.fake.cloud.reservations["us-central1-b"] = reserved("READY")
    await world.selling(kind)
    first = world.offers()[0]
    assert (first.key.market, first.key.zone) == (Market.RESERVED, "us-central1-b")
    assert first.usd_per_hour == 0.0
    await world.launch(first)
    (machine,) = world.fake.cloud.living()
    assert machine.body["reservationAffinity"]["values"] == ["r-1"]
    assert next(iter(await found(world))).offer_key == first.key


async def test_zones_without_the_type_sell_none(world: World) -> None:
    await world.selling(gcp_machines(POOL, machine_type="a3-highgpu-8g"))
    assert {offer.key.zone for offer in world.offers()} == {"us-central1-a", "us-central1-c"}


async def test_a_stock_out_arrives_inside_the_operation(world: World) -> None:
    world.fake.faults.stock[Which(zone="us-central1-a")] = 1
    with pytest.raises(Refusal) as refused:
        await world.launch(world.offers()[0], 2)
    assert refused.value.kind is BlockKind.CAPACITY
    assert "does not have enough resources" in refused.value.message
    assert not world.fake.cloud.machines


async def test_what_takes_longer_than_a_call_is_followed_to_its_end(world: World) -> None:
    world.fake.faults.held.add(Which())
    first = await world.launch(world.offers()[0], 2)
    assert isinstance(first, Accepted)
    refusal = Fault(
        code="QUOTA_EXCEEDED",
        message="Quota 'NVIDIA_A100_GPUS' exceeded.  Limit: 4.0 in region us-central1.",
    )
    world.fake.faults.refused[Which()] = refusal
    with pytest.raises(Refusal) as refused:
        await world.provider.answer(first.handle)
    assert (refused.value.quota, refused.value.number) == ("NVIDIA_A100_GPUS", 4.0)


async def test_a_request_that_google_forgot_is_known_by_the_names_of_its_machines(
    world: World,
) -> None:
    intent = an_intent(world.offers()[0], 2, token=a_token())
    intent = replace(intent, request=world.provider.freeze(intent))
    first = await world.provider.launch(intent)
    world.fake.cloud.requests.clear()
    assert await world.provider.launch(intent) == first
    assert isinstance(first, LaunchResult)
    world.fake.cloud.requests.clear()
    await world.provider.terminate(first.instance_ids[:1])
    with pytest.raises(TimeoutError):
        await world.provider.launch(intent)
    assert len(world.fake.cloud.living()) == 1


async def test_user_data_that_google_would_not_take_is_refused(world: World) -> None:
    provider = await world.selling(T4)
    (offer, *_) = world.offers()
    provider._user_data = lambda *_: "x" * 300_000
    with pytest.raises(Refusal) as refused:
        await world.launch(offer)
    assert refused.value.kind is BlockKind.CONFIG
    assert (
        refused.value.message == f"user data of pool {POOL} has 300000 bytes: Google takes 262144"
    )
    assert not world.fake.cloud.machines


async def test_every_call_is_made_once(world: World) -> None:
    world.fake.faults.always["launch"] = Fault(status=503, code="backendError", message="later")
    world.fake.cloud.calls.clear()
    with pytest.raises(Refusal) as refused:
        await world.launch(world.offers()[0])
    assert refused.value.kind is BlockKind.TRANSIENT
    assert world.fake.cloud.calls == ["POST instances.bulkInsert"]


async def test_a_machine_that_stopped_is_told_with_its_last_words_and_deleted(
    world: World,
) -> None:
    (name,) = (await world.launch(world.offers()[0])).instance_ids
    world.fake.cloud.named(name).console = "booting\r\n\x1b[0mKernel panic\n\n"
    world.fake.cloud.stop(name)
    (seen,) = await found(world)
    assert seen.state is FoundState.ENDED
    assert "it was stopped (terminated), by itself or by somebody" in seen.detail
    assert seen.detail.endswith("booting | [0mKernel panic")
    assert not world.fake.cloud.machines, "its disk would be billed for ever"
    assert not await found(world)


async def test_a_spot_machine_is_taken_back_without_a_trace(world: World) -> None:
    spot = next(offer for offer in world.offers() if offer.key.market is Market.SPOT)
    (name,) = (await world.launch(spot)).instance_ids
    assert {x.instance_id for x in await found(world)} == {name}
    world.fake.cloud.preempt(name)
    assert not await found(world)


async def test_a_termination_in_a_zone_that_cannot_be_listed_is_not_believed(
    world: World,
) -> None:
    (name,) = (await world.launch(world.offers()[0])).instance_ids
    await world.case.restart()
    world.provider = world.case.provider
    world.fake.faults.unreachable.add("us-central1-a")
    with pytest.raises(Exception, match="may be in us-central1-a"):
        await world.provider.terminate([name])
    world.fake.faults.unreachable.clear()
    await world.provider.terminate([name])
    assert not world.fake.cloud.machines


async def test_zones_of_other_regions_are_no_affair_of_this_one(world: World) -> None:
    world.fake.faults.unreachable.add("europe-west4-a")
    assert not (await world.provider.list()).unseen


async def test_a_list_has_all_pages_or_fails(world: World) -> None:
    for number in range(1100):
        world.fake.cloud.add(
            "acme",
            "us-central1-a",
            f"windlass-{number}",
            {
                "machineType": "a2-highgpu-2g",
                "labels": {
                    "windlass_cluster": "test-cluster",
                    "windlass_provider": "acme",
                },
            },
        ).status = "RUNNING"
    assert len(await found(world)) == 1100
    fault = Fault(status=503, code="backendError", message="no")
    world.fake.faults.failing["list"] = [None, fault]
    with pytest.raises(Exception, match="backendError"):
        await world.provider.list()


@pytest.mark.parametrize(
    ("change", "kind", "hint"),
    [
        (
            {"boot_disk_source_image": "projects/acme/global/images/none"},
            BlockKind.CONFIG,
            "boot_disk_source_image",
        ),
        ({"boot_disk_size": 20}, BlockKind.CONFIG, "boot_disk_size"),
        (
            {"network_interface": GcpNetwork(network="training", subnetwork="none")},
            BlockKind.CONFIG,
            "network_interface",
        ),
        (
            {"service_account": GcpServiceAccount.model_construct(email="x@y")},
            BlockKind.CONFIG,
            "service_account",
        ),
        (
            {"instance_type": GcpMachine.model_construct(machine_type="n1-standard-9")},
            BlockKind.UNSUPPORTED,
            "n1-standard-9",
        ),
        ({"base_config": {"noSuchKey": 1}}, BlockKind.CONFIG, "base_config"),
    ],
)
async def test_a_wrong_setting_is_said_with_its_key(
    world: World, change: dict[str, Any], kind: BlockKind, hint: str
) -> None:
    await world.selling(T4.but(**change))
    with pytest.raises(Refusal) as refused:
        await world.launch(world.offers()[0])
    assert refused.value.kind is kind
    assert hint in refused.value.message
    assert not world.fake.cloud.machines


async def test_a_placement_policy_is_made_once_and_machines_are_in_it(world: World) -> None:
    kind = gcp_machines(POOL, machine_type="a2-highgpu-2g", placement_policy="close")
    await world.selling(kind)
    await world.selling(kind)
    assert set(world.fake.cloud.policies) == {("us-central1", "close")}
    await world.launch(world.offers()[0], 2)
    for machine in world.fake.cloud.living():
        (policy,) = machine.body["resourcePolicies"]
        assert policy.endswith("regions/us-central1/resourcePolicies/close")
    assert {x.offer_key.placement for x in await found(world)} == {"close"}


async def test_a_call_that_hangs_holds_up_no_other(world: World) -> None:
    world.fake.faults.hanging.add("list")
    waiting = asyncio.create_task(world.provider.list())
    assert isinstance(await world.launch(world.offers()[0]), LaunchResult)
    world.fake.cloud.mend()
    with pytest.raises(OSError):  # noqa: PT011 - however the connection ended
        await waiting


async def found(world: World) -> list[Any]:
    return list((await world.provider.list()).instances)
