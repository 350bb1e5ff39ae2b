"""`windlass master check --cloud` on Compute Engine: what is wrong, with its way out; nothing is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from provisioner.money.price_book import open_book
from provisioner.providers.gcp.check import check
from provisioner.providers.gcp.site import GcpSite
from provisioner.sections.gcp import GcpMachine, GcpMachines, GcpNetwork
from tests.fakes.gce import FakeGce, Fault, fake_gce
from tests.fakes.pool_machines import gcp_machines

OPTIONS = replace(
    gcp_machines(
        machine_type="a2-highgpu-2g", zones=["us-central1-a"], markets=["spot", "on_demand"]
    ),
    max_instances=4,
)


@pytest.fixture
def gce() -> Iterator[FakeGce]:
    with fake_gce() as fake:
        yield fake


async def found(gce: FakeGce, options: GcpMachines = OPTIONS) -> dict[str, tuple[str, ...]]:
    site = GcpSite(name="acme", project="acme", region="us-central1", endpoint_url=gce.url)
    return {f.what: f.problems for f in await check(site, [options], open_book(None))}


async def test_what_could_be_bought_has_no_problems_and_nothing_is_made(gce: FakeGce) -> None:
    gce.cloud.quotas = {"NVIDIA_A100_GPUS": 8, "PREEMPTIBLE_NVIDIA_A100_GPUS": 8}
    assert await found(gce) == {
        "acme: credentials (project acme)": (),
        "acme: permissions": (),
        "acme: images of machines (det fleet bake)": (),
        "acme: today's prices (prices.refresh)": (),
        "acme: a2-highgpu-2g for pool gpu": (),
        "acme: quotas": (),
    }
    assert not [call for call in gce.cloud.calls if not call.startswith("GET")]


async def test_credentials_that_are_refused_end_the_check(gce: FakeGce) -> None:
    gce.faults.always["facts"] = Fault(
        status=403, code="forbidden", message="Required 'compute.zones.list' permission"
    )
    ((what, problems),) = (await found(gce)).items()
    assert what == "acme: credentials"
    assert "Required 'compute.zones.list' permission" in problems[0]


async def test_zones_types_and_reservations_that_are_not_there(gce: FakeGce) -> None:
    options = OPTIONS.but(
        instance_type=GcpMachine(machine_type="a3-highgpu-8g"),
        zones=("us-central1-b", "us-central1-x"),
        reservations=("r-1",),
    )
    problems = (await found(gce, options))["acme: a3-highgpu-8g for pool gpu"]
    assert problems == (
        "us-central1-b has no a3-highgpu-8g: leave the zone out",
        problems[1],
        "there is no reservation r-1 in the zones of the pool: correct reservations",
    )
    assert problems[1].startswith("there is no zone us-central1-x: did you mean us-central1-")


async def test_a_quota_is_told_with_how_many_machines_fit(gce: FakeGce) -> None:
    gce.cloud.quotas = {"NVIDIA_A100_GPUS": 5, "PREEMPTIBLE_NVIDIA_A100_GPUS": 0}
    assert (await found(gce))["acme: quotas"] == (
        "the quota PREEMPTIBLE_NVIDIA_A100_GPUS of us-central1 is 0: 0 of 4 machines of pool gpu "
        "fit; ask for more in IAM > Quotas",
        "the quota NVIDIA_A100_GPUS of us-central1 is 5: 2 of 4 machines of pool gpu "
        "fit; ask for more in IAM > Quotas",
    )


async def test_missing_permissions_are_named_with_what_they_are_for(gce: FakeGce) -> None:
    gce.cloud.denied = {
        *("compute.instances.create", "compute.instances.stop", "compute.images.delete"),
        *("compute.subnetworks.use", "iam.serviceAccounts.actAs"),
    }
    told = await found(gce)
    assert told["acme: permissions"] == (
        "compute.instances.create is needed to launch machines: add it to the role of the master's account",
        "compute.subnetworks.use is needed to connect them: add it to the role of the master's account",
    )
    # Not every operator bakes: that is said, and no problem.
    assert told[
        "acme: images of machines (det fleet bake): not allowed, compute.images.delete is needed to remove images that "
        "failed: add it to the role of the master's account"
    ] == ()  # fmt: skip
    pool = replace(
        OPTIONS.but(
            network_interface=GcpNetwork(subnetwork="projects/other/regions/r/subnetworks/s")
        ),
        may_stop=True,
    )
    (_, stops) = (await found(gce, pool))["acme: permissions"]
    assert stops.startswith("compute.instances.stop is needed to stop idle machines")


async def test_permissions_and_prices_that_cannot_be_asked_are_said(gce: FakeGce) -> None:
    gce.cloud.denied = None
    gce.cloud.billing_refuses = "Cloud Billing API has not been used in project acme before"
    told = await found(gce)
    assert not [what for what in told if "bake" in what]
    (permissions,) = [what for what in told if what.startswith("acme: permissions: not known")]
    assert "Cloud Resource Manager API has not been used" in permissions
    (prices,) = [what for what in told if "prices" in what]
    assert "not allowed" in prices
    assert "Cloud Billing API has not been used" in prices
    assert not any(told[what] for what in (permissions, prices))
