"""The policies of `det deploy` are made of tables: these hold exactly what the clouds ask for the calls of a provider.

And whatever such a call makes says whose it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from provisioner.providers.aws import permissions as of_aws
from provisioner.providers.gcp import permissions as of_gcp
from provisioner.providers.images import BAKE, ImageOrder, ImageState, MakesImages, image_name
from provisioner.sections.aws import AwsMachines
from provisioner.sections.gcp import GcpMachines, GcpNetwork
from tests.contract.providers.aws import OPTIONS, AwsCase, aws
from tests.contract.providers.base import POOL, ProviderCase, a_token
from tests.contract.providers.gcp import GcpCase, gcp_case
from tests.fakes.ec2_server import UBUNTU_GPU
from tests.fakes.fleet_world import CLUSTER, an_intent
from tests.fakes.gce import Which
from tests.fakes.pool_machines import gcp_machines
from windlass.base.permissions import Permission

PARAMETER = "/images/{arch}/gpu"
PROFILE = "agents"
DEPLOYED_ON_AWS = replace(OPTIONS.but(image_id="", image_parameter=PARAMETER), may_stop=False)
"""A pool of EC2 as `det deploy` writes it; its instance profile is that of the test."""
DEPLOYED_ON_GCP = gcp_machines(
    POOL,
    machine_type="n1-standard-8",
    gpu_type="nvidia-tesla-t4",
    gpu_num=1,
    zones=["us-central1-a"],
    network_tags=["agents"],
    network_interface={"subnetwork": "training-a"},
    service_account={"email": "agents@acme.iam.gserviceaccount.com"},
)


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioner.providers.gcp.launches.POLLS_S", (0.0,))


def actions(table: Sequence[Permission], *features: str) -> set[str]:
    return {each.action for each in table if each.feature in ("", *features)}


async def every_call_of_ec2(
    case: AwsCase, options: AwsMachines, *, queue: bool = False, role: str = ""
) -> None:
    case.server.client("ssm").put_parameter(
        Name="/images/x86_64/gpu", Value=UBUNTU_GPU, Type="String", Overwrite=True
    )
    await case.provider.close()
    made = case.make(options, role=role, queue=queue)
    case.provider = made
    await made.open()
    (instance_id,) = (await case.launch(case.intent())).instance_ids
    if queue:
        case.take_back(instance_id, 60.0)
    await made.list()
    if options.may_stop:
        await made.stop(instance_id)
        await case.off(instance_id)
        await made.start(instance_id, case.offer)
    case.server.shut_down(instance_id)
    await made.list()
    await made.list()
    await made.terminate([instance_id])


def a_profile(case: AwsCase) -> str:
    iam = case.server.client("iam")
    try:
        return str(
            iam.create_instance_profile(InstanceProfileName=PROFILE)["InstanceProfile"]["Arn"]
        )
    except iam.exceptions.EntityAlreadyExistsException:
        return str(iam.get_instance_profile(InstanceProfileName=PROFILE)["InstanceProfile"]["Arn"])


async def test_a_pool_of_ec2_needs_what_its_policy_allows_and_no_more(tmp_path: Path) -> None:
    async with aws(tmp_path) as case:
        case.server.reset()
        options = DEPLOYED_ON_AWS.but(iam_instance_profile_arn=a_profile(case))
        await every_call_of_ec2(case, options)
        assert case.server.permissions() == actions(of_aws.PERMISSIONS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("feature", "options"),
    [
        ("reservations", DEPLOYED_ON_AWS.but(reservations=("cr-0b",))),
        ("placement_group", DEPLOYED_ON_AWS.but(placement_group="near")),
        ("interruption_queue", DEPLOYED_ON_AWS),
        ("assume_role", DEPLOYED_ON_AWS),
        ("stopped_agents", replace(DEPLOYED_ON_AWS, may_stop=True)),
    ],
)
async def test_a_feature_of_ec2_needs_what_its_key_adds(
    feature: str, options: AwsMachines, tmp_path: Path
) -> None:
    async with aws(tmp_path) as case:
        case.server.reset()
        role = "arn:aws:iam::123456789012:role/windlass" if feature == "assume_role" else ""
        options = options.but(iam_instance_profile_arn=a_profile(case))
        await every_call_of_ec2(case, options, queue=feature == "interruption_queue", role=role)
        assert case.server.permissions() == actions(of_aws.PERMISSIONS, feature)


async def every_call_of_gce(case: GcpCase, options: GcpMachines) -> None:
    await case.provider.close()
    case.provider = case.made((options,))
    await case.provider.open()
    cloud = case.fake.cloud
    intent = an_intent(case.offer, 1, token=a_token())
    intent = replace(intent, request=case.provider.freeze(intent))
    cloud.faults.held.add(Which())
    accepted = await case.accepted(intent)
    case.deliver()
    await case.provider.answer(accepted.handle)
    cloud.operations.clear()  # Google forgets them after an hour
    await case.provider.answer(accepted.handle)
    (machine,) = cloud.living()
    if options.may_stop:
        await case.provider.list()
        await case.provider.stop(machine.name)
        await case.provider.start(machine.name, case.offer)
        await case.provider.console(machine.name)
        await case.provider.terminate([machine.name])
    else:
        cloud.stop(machine.name)
    await case.provider.list()


async def test_a_pool_of_gce_needs_what_its_role_allows_and_no_more(tmp_path: Path) -> None:
    async with gcp_case(tmp_path) as case:
        await every_call_of_gce(case, DEPLOYED_ON_GCP)
        assert case.fake.cloud.permissions == actions(of_gcp.PERMISSIONS)


@pytest.mark.parametrize(
    ("feature", "options"),
    [
        ("reservations", DEPLOYED_ON_GCP.but(reservations=("ours",), markets=("spot",))),
        ("placement_policy", DEPLOYED_ON_GCP.but(placement_policy="near")),
        (
            "network_interface.external_ip",
            DEPLOYED_ON_GCP.but(
                network_interface=GcpNetwork(subnetwork="training-a", external_ip=True)
            ),
        ),
        ("stopped_agents", replace(DEPLOYED_ON_GCP, may_stop=True)),
    ],
)
async def test_a_feature_of_gce_needs_what_its_key_adds(
    feature: str, options: GcpMachines, tmp_path: Path
) -> None:
    async with gcp_case(tmp_path) as case:
        await every_call_of_gce(case, options)
        assert case.fake.cloud.permissions == actions(of_gcp.PERMISSIONS, feature)


async def every_call_of_a_bake(case: ProviderCase, stop: Callable[[str], object]) -> None:
    """An image that is made, and then removed as one that failed."""
    provider = case.provider
    assert isinstance(provider, MakesImages)
    offer, bake_id = provider.bake_offers(POOL)[0], f"{BAKE}{a_token()}"
    call = an_intent(offer, 1, token=a_token(), intent_id=bake_id)
    made = await case.launch(replace(call, request=provider.freeze(call)))
    order = ImageOrder(
        bake_id=bake_id,
        cluster_id=CLUSTER,
        pool=POOL,
        name=image_name(POOL, bake_id),
        instance_id=made.instance_ids[0],
        key=offer.key,
    )
    stop(order.instance_id)
    while (await provider.make_image(order)).state is not ImageState.READY:
        pass
    while not await provider.remove_image(order):
        pass


@pytest.mark.slow
async def test_a_bake_on_ec2_needs_what_its_feature_adds(tmp_path: Path) -> None:
    async with aws(tmp_path) as case:
        case.server.reset()
        options = DEPLOYED_ON_AWS.but(iam_instance_profile_arn=a_profile(case))
        await every_call_of_ec2(case, options)
        client = case.server.client()
        await every_call_of_a_bake(case, lambda id_: client.stop_instances(InstanceIds=[id_]))
        assert case.server.permissions() == actions(of_aws.PERMISSIONS, "bake")


async def test_prices_of_aws_need_what_their_feature_adds(tmp_path: Path) -> None:
    async with aws(tmp_path) as case:
        case.server.reset()
        options = DEPLOYED_ON_AWS.but(iam_instance_profile_arn=a_profile(case))
        await every_call_of_ec2(case, options)
        await case.provider.list_prices(date(2026, 11, 22))
        assert case.server.permissions() == actions(of_aws.PERMISSIONS, "price_refresh")


async def test_a_bake_on_gce_needs_what_its_feature_adds(tmp_path: Path) -> None:
    async with gcp_case(tmp_path) as case:
        await every_call_of_gce(case, DEPLOYED_ON_GCP)
        await every_call_of_a_bake(case, case.fake.cloud.stop)
        assert case.fake.cloud.permissions == actions(of_gcp.PERMISSIONS, "bake")


@pytest.mark.parametrize("table", [of_aws.PERMISSIONS, of_gcp.PERMISSIONS])
def test_every_feature_is_tried_here(table: Sequence[Permission]) -> None:
    tried = {"reservations", "placement_group", "interruption_queue", "assume_role"}
    tried |= {"placement_policy", "network_interface.external_ip", "stopped_agents"}
    tried |= {"bake", "price_refresh"}
    by_ec2 = {"spot", "volume_keys"}  # in the caller's name: no double asks for them
    tried |= by_ec2
    assert {each.feature for each in table} - {""} <= tried


async def test_all_that_is_made_on_ec2_carries_the_tag_of_the_cluster(tmp_path: Path) -> None:
    async with aws(tmp_path) as case:
        case.server.reset()
        await case.provider.close()
        case.provider = case.make(OPTIONS.but(placement_group="near"))
        await case.provider.open()
        for offer in case.offers:
            await case.launch(case.intent(offer=offer))
        calls = [*case.server.calls("RunInstances"), *case.server.calls("CreatePlacementGroup")]
        tagged = [
            (kind, tags.get("windlass:cluster")) for call in calls for kind, tags in tags_in(call)
        ]
        machine = ("instance", "volume", "network-interface")
        kinds = [*machine, *machine, "spot-instances-request", "placement-group"]
        assert sorted(tagged) == sorted((kind, CLUSTER) for kind in kinds)


def tags_in(call: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Kind of resource, its tags: as EC2's query protocol numbers them."""
    found = []
    for key, kind in call.items():
        if key.endswith(".ResourceType"):
            stem = key.removesuffix("ResourceType")
            names = {k: v for k, v in call.items() if k.startswith(stem) and k.endswith(".Key")}
            found.append((kind, {v: call[k[: -len("Key")] + "Value"] for k, v in names.items()}))
    return found


async def test_all_that_is_made_on_gce_carries_the_label_of_the_cluster(tmp_path: Path) -> None:
    scratch = {"autoDelete": True, "initializeParams": {"diskSizeGb": "375", "labels": {"a": "b"}}}
    attached = {"source": "projects/acme/zones/us-central1-a/disks/data", "mode": "READ_ONLY"}
    options = DEPLOYED_ON_GCP.but(
        placement_policy="near", base_config={"disks": [scratch, attached]}
    )
    async with gcp_case(tmp_path) as case:
        await every_call_of_gce(case, options)
        cloud = case.fake.cloud
        (machine,) = cloud.gone
        boot, second, found = machine.body["disks"]
        made = [machine.body, boot["initializeParams"], second["initializeParams"]]
        assert {each["labels"]["windlass_cluster"] for each in made} == {CLUSTER}
        assert second["initializeParams"]["labels"]["a"] == "b"
        assert found == attached, "it is not ours"
        (policy,) = cloud.policies.values()
        assert policy["description"] == f"windlass_cluster={CLUSTER}"
