"""What is EC2's own: facts that are learned, calls as they arrive, lists over several pages, credentials."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.client import AwsClient
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.base import FoundState
from provisioner.providers.errors import Refusal, TokenSpent
from provisioner.sections.aws import AwsMachines
from provisioner.types import Market, Quota
from tests.contract.providers.aws import OPTIONS, AwsCase, aws, interruption
from tests.contract.providers.base import POOL
from tests.fakes.ec2_server import REGION, UBUNTU_GPU
from windlass.base.errors import ProviderError


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[AwsCase]:
    async with aws(tmp_path) as one:
        yield one


async def with_options(case: AwsCase, *options: AwsMachines, **account: str) -> AwsProvider:
    provider = AwsProvider(
        account=replace(case.provider._account, **account),
        pools=options,
        cluster_id=case.provider._cluster_id,
        clock=case.provider._clock,
        prices=case.provider._prices,
        user_data=case.provider._user_data,
    )
    await case.provider.close()
    case.provider = provider
    await provider.open()
    return provider


async def test_facts_come_from_ec2(case: AwsCase) -> None:
    options = OPTIONS.but(instance_type="p4d.24xlarge", instance_slots=None, zones=())
    provider = await with_options(case, options)
    offers = provider.offers(POOL) or ()
    assert {offer.slots for offer in offers} == {8}
    assert {offer.gpu_model for offer in offers} == {"A100"}
    assert {offer.cpus for offer in offers} == {96}
    zones = {offer.key.zone for offer in offers}
    assert len(zones) >= 2
    assert all(zone.startswith(REGION) for zone in zones)


async def test_quotas_are_counted_in_vcpus_by_family_and_market(case: AwsCase) -> None:
    case.server.quota("L-DB2E81BA", 12.0)
    offers = (await with_options(case, OPTIONS)).offers(POOL) or ()
    quotas = {offer.key.market: offer.quota for offer in offers}
    name = "on-demand G and VT instances, in vCPUs (L-DB2E81BA)"
    # EC2 does not say what is used: our own machines are counted by the planner, from the first on.
    assert quotas[Market.ON_DEMAND] == Quota(name=name, left=12.0, each=4.0, counted_at=0.0)
    assert quotas[Market.SPOT] is not None
    assert (quotas[Market.SPOT].left, "(L-3819A6DF)" in quotas[Market.SPOT].name) == (64.0, True)
    assert {offer.least_billed_s for offer in offers} == {60.0}


@pytest.mark.slow
async def test_an_account_that_may_not_read_its_quotas_buys_all_the_same(case: AwsCase) -> None:
    case.server.rule("GetServiceQuota", code="AccessDeniedException", times=-1)
    offers = (await with_options(case, OPTIONS)).offers(POOL) or ()
    assert [offer.quota for offer in offers] == [None, None]


async def test_until_ec2_was_asked_a_pool_is_judged_by_its_configuration(case: AwsCase) -> None:
    unasked = case.make()
    assert unasked.offers(POOL) is None
    assert {offer.slots for offer in unasked.could_offer(POOL)} == {2}
    assert unasked.could_offer("another") == []


async def test_one_attempt_is_made_of_each_call(case: AwsCase) -> None:
    case.server.rule("RunInstances", code="InsufficientInstanceCapacity", status=500, times=-1)
    before = len(case.server.calls("RunInstances"))
    with pytest.raises(Refusal):
        await case.launch(case.intent())
    assert len(case.server.calls("RunInstances")) == before + 1


async def test_user_data_arrives_as_it_was_made(case: AwsCase) -> None:
    (instance_id,) = (await case.launch(case.intent())).instance_ids
    found = case.server.client().describe_instance_attribute(
        InstanceId=instance_id, Attribute="userData"
    )
    assert base64.b64decode(found["UserData"]["Value"]).startswith(b"#!/bin/sh\n# join-me")


async def test_user_data_that_ec2_would_not_take_is_refused(case: AwsCase) -> None:
    case.provider._user_data = lambda _: "x" * 20_000
    with pytest.raises(Refusal) as refused:
        await case.launch(case.intent())
    assert refused.value.kind is BlockKind.CONFIG
    assert "20000 bytes" in refused.value.message


async def test_disks_and_interfaces_carry_the_tags_of_their_machine(case: AwsCase) -> None:
    await case.launch(case.intent())
    ours = [{"Name": "tag:windlass:cluster", "Values": ["test-cluster"]}]
    client = case.server.client()
    call = case.server.calls("RunInstances")[-1]
    tagged = {v for k, v in call.items() if k.endswith("ResourceType")}
    assert tagged == {"instance", "volume", "network-interface"}
    assert client.describe_volumes(Filters=ours)["Volumes"]


@pytest.mark.slow
async def test_a_token_with_other_parameters_is_spent(case: AwsCase) -> None:
    intent = case.intent()
    await case.launch(intent)
    case.reconfigure()
    with pytest.raises(TokenSpent):
        await case.launch(case.intent(token=intent.token))


async def test_a_token_whose_machines_have_ended_is_spent(case: AwsCase) -> None:
    intent = case.intent()
    await case.provider.terminate((await case.launch(intent)).instance_ids)
    with pytest.raises(TokenSpent):
        await case.launch(intent)


async def test_half_a_list_is_none(case: AwsCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioner.providers.aws.provider._PAGE", 5)
    for _ in range(7):
        await case.launch(case.intent())
    assert len(await case.living()) == 7
    case.server.rule(
        "DescribeInstances", match={"NextToken": ".+"}, code="InternalError", status=500
    )
    with pytest.raises(ProviderError):
        await case.provider.list()


async def test_a_machine_that_ended_says_why(case: AwsCase) -> None:
    (instance_id,) = (await case.launch(case.intent())).instance_ids
    case.kill(instance_id)
    (found,) = await case.listed()
    assert found.state is FoundState.ENDED
    assert "User initiated" in found.detail


async def test_a_boot_that_failed_says_so_by_its_console(case: AwsCase) -> None:
    (instance_id,) = (await case.launch(case.intent())).instance_ids
    case.server.console(instance_id, "x" * 1000 + "\x1b[1m\nwindlass: no disk.\r\n")
    case.server.shut_down(instance_id)
    for _ in range(2):
        (found,) = await case.listed()
        assert found.state is FoundState.ENDED
        assert found.detail.startswith("it shut itself down; its console ends with: xxx")
        assert found.detail.endswith("xxx [1m windlass: no disk.")
        assert len(found.detail) < 500
    assert len(case.server.calls("GetConsoleOutput")) == 1


async def test_a_protected_machine_hinders_no_other_end(case: AwsCase) -> None:
    one, other = (await case.launch(case.intent(2))).instance_ids
    case.server.rule(
        "TerminateInstances",
        match={"InstanceId.1": one},
        code="OperationNotPermitted",
        message=f"The instance '{one}' may not be terminated.",
        times=-1,
    )
    with pytest.raises(ProviderError, match=one):
        await case.provider.terminate([one, other])
    assert set(await case.living()) == {one}


async def test_a_placement_group_is_made_once(case: AwsCase) -> None:
    options = OPTIONS.but(placement_group="near")
    for _ in range(2):
        provider = await with_options(case, options)
    assert {offer.key.placement for offer in provider.offers(POOL) or ()} == {"near"}
    await case.launch(case.intent(2))
    assert {x.offer_key.placement for x in (await case.living()).values()} == {"near"}


async def test_reservations_are_bought_first(case: AwsCase) -> None:
    case.server.reservation(
        capacityReservationId="cr-0a",
        instanceType="g4dn.xlarge",
        availabilityZone="us-east-1a",
        state="active",
        reservationType="default",
    )
    provider = await with_options(case, OPTIONS.but(reservations=("cr-0a",)))
    first = (provider.offers(POOL) or ())[0]
    assert (first.key.market, first.key.reservation) == (Market.RESERVED, "cr-0a")
    await case.launch(case.intent(offer=first))
    assert {x.offer_key for x in (await case.living()).values()} == {first.key}


@pytest.mark.slow
async def test_machines_of_a_capacity_block_are_bought_until_it_ends(case: AwsCase) -> None:
    end = datetime.now(UTC) + timedelta(hours=8)
    case.server.reservation(
        capacityReservationId="cr-0c",
        instanceType="g4dn.xlarge",
        availabilityZone="us-east-1a",
        state="active",
        reservationType="capacity-block",
        endDate=end.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    )
    provider = await with_options(case, OPTIONS.but(reservations=("cr-0c",), markets=()))
    (offer,) = provider.offers(POOL) or ()
    assert offer.key.market is Market.CAPACITY_BLOCK
    assert offer.ends_at is not None
    assert offer.ends_at <= end.timestamp()
    await case.launch(case.intent(offer=offer))
    call = case.server.calls("RunInstances")[-1]
    assert call["InstanceMarketOptions.MarketType"] == "capacity-block"
    target = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
    assert call[target] == "cr-0c"
    assert {x.offer_key for x in (await case.living()).values()} == {offer.key}


async def test_efa_has_an_interface_for_each_card_in_one_placement_group(case: AwsCase) -> None:
    options = OPTIONS.but(
        instance_type="p4d.24xlarge",
        instance_slots=None,
        efa=True,
        placement_group="near",
        markets=("on_demand",),
    )
    await with_options(case, options)
    await case.launch(case.intent(2))
    call = case.server.calls("RunInstances")[-1]
    kinds = {k: v for k, v in call.items() if k.endswith(".InterfaceType")}
    assert list(kinds.values()) == ["efa"] * 4
    cards = {v for k, v in call.items() if k.endswith(".NetworkCardIndex")}
    assert cards == {"0", "1", "2", "3"}
    assert (call["Placement.GroupName"], call["MinCount"], call["MaxCount"]) == ("near", "2", "2")


async def test_a_launch_template_is_the_base_of_machines(case: AwsCase) -> None:
    name = f"base-{uuid.uuid4().hex[:8]}"
    case.server.client().create_launch_template(
        LaunchTemplateName=name, LaunchTemplateData={"ImageId": UBUNTU_GPU, "EbsOptimized": True}
    )
    await with_options(case, OPTIONS.but(launch_template=f"{name}:1"))
    await case.launch(case.intent())
    call = case.server.calls("RunInstances")[-1]
    assert call["LaunchTemplate.LaunchTemplateName"] == name
    assert call["LaunchTemplate.Version"] == "1"
    assert len(await case.living()) == 1


async def test_an_image_may_be_named_by_a_parameter(case: AwsCase) -> None:
    case.server.client("ssm").put_parameter(
        Name="/images/x86_64/gpu", Value=UBUNTU_GPU, Type="String", Overwrite=True
    )
    options = OPTIONS.but(image_id="", image_parameter="/images/{arch}/gpu")
    provider = await with_options(case, options)
    assert {offer.image for offer in provider.offers(POOL) or ()} == {UBUNTU_GPU}
    await case.launch(case.intent())


async def test_what_is_for_sale_is_asked_again_and_kept_when_nobody_answers(
    case: AwsCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = case.provider.offers(POOL)
    case.server.rule("DescribeInstanceTypes", code="InternalError", status=500, times=-1)
    with pytest.raises(ProviderError):
        await case.provider._refresh()
    assert case.provider.offers(POOL) == before
    case.mend()
    await case.provider._refresh()
    assert case.provider.offers(POOL) == before


@pytest.mark.slow
async def test_notices_of_the_queue_are_kept_until_their_machine_is_gone(case: AwsCase) -> None:
    (instance_id,) = (await case.launch(case.intent())).instance_ids
    case.take_back(instance_id, 120.0)
    for _ in range(2):
        found = (await case.living())[instance_id]
        assert found.leaves_because == "spot interruption"
    case.kill(instance_id)
    await case.provider.list()
    assert case.provider._notices._known == {}


async def test_a_queue_that_fails_hinders_no_list(case: AwsCase) -> None:
    await case.launch(case.intent())
    queue = "https://sqs.us-east-1.amazonaws.com/123456789012/not-there"
    await with_options(case, OPTIONS, queue_url=queue)
    assert len(await case.living()) == 1


async def test_what_the_queue_holds_beside_notices_is_ignored(case: AwsCase) -> None:
    client = case.server.client("sqs")
    for body in ("no json", "[]", '{"detail-type": "EC2 Instance State-change Notification"}'):
        client.send_message(QueueUrl=case.queue_url, MessageBody=body)
    broken = interruption("i-1") | {"time": "yesterday"}
    client.send_message(QueueUrl=case.queue_url, MessageBody=str(broken))
    assert not (await case.provider.list()).instances


async def test_a_role_is_assumed(case: AwsCase) -> None:
    role = "arn:aws:iam::123456789012:role/windlass"
    await with_options(case, OPTIONS, role=role, external_id="x-1")
    assert len((await case.launch(case.intent())).instance_ids) == 1
    call = case.server.calls("AssumeRole")[-1]
    assert (call["RoleArn"], call["ExternalId"]) == (role, "x-1")


async def test_without_credentials_the_way_out_is_said(
    case: AwsCase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(Refusal) as refused:
        await with_options(case, OPTIONS)
    assert refused.value.kind is BlockKind.AUTH
    assert "docs/aws.md" in refused.value.message


async def test_a_region_that_does_not_answer_is_no_refusal(case: AwsCase) -> None:
    client = AwsClient(AwsAccount(name="x", region=REGION, endpoint_url="http://127.0.0.1:9"))
    client.open()
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        await client.call("sts", "get_caller_identity")
    client.close()
