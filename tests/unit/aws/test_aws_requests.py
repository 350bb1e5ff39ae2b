"""What is sold in which zone and market, and the whole of the call that launches it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from provisioner.capacity.refusals import BlockKind
from provisioner.money.price_book import PriceOverride, open_book
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.catalogue import (
    CapacityReservation,
    Catalogue,
    MachineImage,
    Subnet,
    TypeFacts,
)
from provisioner.providers.aws.names import is_zone_of, quota_code, quota_family
from provisioner.providers.aws.offers import facts_of, offers_of
from provisioner.providers.aws.request import run_instances
from provisioner.providers.errors import Refusal
from provisioner.sections.aws import AwsNetwork
from provisioner.types import Market, Offer
from tests.fakes.fleet_world import an_intent
from tests.fakes.pool_machines import aws_machines

ACCOUNT = AwsAccount(name="aws-us-east-1", region="us-east-1")
PRICES = open_book(None)
IMAGE = MachineImage(id="ami-1", root_device="/dev/xvda", architecture="x86_64")
P4D = TypeFacts(
    name="p4d.24xlarge", gpus=8, gpu_model="A100", cpus=96, network_cards=4, efa_interfaces=4
)
CATALOGUE = Catalogue(
    zones=frozenset({"us-east-1a", "us-east-1b", "us-east-1c"}),
    types={"p4d.24xlarge": P4D, "g5g.xlarge": TypeFacts(name="g5g.xlarge", architecture="arm64")},
    sold=frozenset({("p4d.24xlarge", "us-east-1a"), ("p4d.24xlarge", "us-east-1b")}),
    subnets={
        "subnet-9": Subnet(id="subnet-9", zone="us-east-1b", network="vpc-1"),
    },
    default_subnets={
        f"us-east-1{x}": Subnet(id=f"subnet-{x}", zone=f"us-east-1{x}", network="vpc-1")
        for x in "abc"
    },
    images={"ami-1": IMAGE},
    reservations={
        "cr-1": CapacityReservation(
            id="cr-1",
            instance_type="p4d.24xlarge",
            zone="us-east-1b",
            is_block=False,
            starts_at=None,
            ends_at=None,
        ),
        "cr-2": CapacityReservation(
            id="cr-2",
            instance_type="p4d.24xlarge",
            zone="us-east-1a",
            is_block=True,
            starts_at=1000.0,
            ends_at=5000.0,
        ),
    },
    spot_usd={("p4d.24xlarge", "us-east-1a"): 7.5},
)
OPTIONS = aws_machines(instance_type="p4d.24xlarge", image_id="ami-1")


def sold(now: float = 2000.0, **keys: Any) -> list[Offer]:
    return list(offers_of(ACCOUNT, OPTIONS.but(**keys), CATALOGUE, PRICES, now))


def call(
    offer: Offer | None = None, count: int = 2, open_metadata: bool = False, **changes: Any
) -> dict[str, Any]:
    machines = replace(OPTIONS.but(**changes), open_metadata=open_metadata)
    intent = an_intent(offer or sold(**changes)[0], count, pool="gpu", created_at=12.5)
    made = run_instances(intent, machines, facts_of(machines.section, CATALOGUE, PRICES), CATALOGUE)
    assert json.loads(json.dumps(made)) == made
    return made


def test_an_offer_for_each_zone_that_has_the_type() -> None:
    assert [(x.key.zone, x.slots, x.usd_per_hour) for x in sold()] == [
        ("us-east-1a", 8, 21.957642),
        ("us-east-1b", 8, 21.957642),
    ]
    assert sold()[0].family == "P"
    assert sold()[0].image == "ami-1"


def test_a_type_that_no_zone_has_is_offered_all_the_same_so_that_ec2_says_why() -> None:
    nowhere = replace(CATALOGUE, sold=frozenset())
    offers = offers_of(ACCOUNT, OPTIONS, nowhere, PRICES, 0.0)
    assert len(offers) == 3


def test_spot_costs_what_ec2_says_unless_the_operator_knows_better() -> None:
    a, b = sold(markets=("spot",))
    assert a.usd_per_hour == 7.5
    assert b.usd_per_hour == 21.957642, "unknown: at most the price on demand"
    assert a.interruptions_per_hour > 0
    known = replace(
        PRICES, overrides=(PriceOverride(instance_type="p4d.24xlarge", usd_per_hour=6.0),)
    )
    options = OPTIONS.but(markets=("spot",))
    assert offers_of(ACCOUNT, options, CATALOGUE, known, 0.0)[0].usd_per_hour == 6.0


def test_reservations_come_first_where_they_are_and_while_they_run() -> None:
    offers = sold(reservations=("cr-1", "cr-2", "cr-missing"), markets=())
    assert [(x.key.market, x.key.zone, x.key.reservation) for x in offers] == [
        (Market.RESERVED, "us-east-1b", "cr-1"),
        (Market.CAPACITY_BLOCK, "us-east-1a", "cr-2"),
    ]
    assert [x.ends_at for x in offers] == [None, 5000.0]
    assert [x.key.reservation for x in sold(500.0, reservations=("cr-2",), markets=())] == []
    assert [x.key.reservation for x in sold(6000.0, reservations=("cr-2",), markets=())] == []


def test_a_machine_without_gpus_has_a_slot_if_the_pool_says_so() -> None:
    cpu = TypeFacts(name="m5.large", cpus=2)
    catalogue = replace(CATALOGUE, types={"m5.large": cpu})
    for cpu_slot in (False, True):
        options = OPTIONS.but(instance_type="m5.large", cpu_slots_allowed=cpu_slot)
        offers = offers_of(ACCOUNT, options, catalogue, PRICES, 0.0)
        assert {x.slots for x in offers} == {int(cpu_slot)}


def test_a_launch_is_all_or_nothing_private_and_tagged_with_the_call() -> None:
    made = call(
        iam_instance_profile_arn="arn:x",
        ssh_key_name="ops",
        network_interface=AwsNetwork(security_group_id="sg-1"),
    )
    assert (made["MinCount"], made["MaxCount"]) == (2, 2)
    assert made["MetadataOptions"]["HttpTokens"] == "required"
    assert made["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    for_tasks = call(open_metadata=True)["MetadataOptions"]
    assert for_tasks["HttpPutResponseHopLimit"] == 2, "containers on a bridge are one hop further"
    assert made["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert made["BlockDeviceMappings"] == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {
                "VolumeSize": 200,
                "VolumeType": "gp3",
                "Encrypted": True,
                "DeleteOnTermination": True,
            },
        }
    ]
    assert made["NetworkInterfaces"] == [
        {
            "DeviceIndex": 0,
            "DeleteOnTermination": True,
            "SubnetId": "subnet-a",
            "Groups": ["sg-1"],
            "AssociatePublicIpAddress": True,
        }
    ]
    assert {x["ResourceType"] for x in made["TagSpecifications"]} == {
        *("instance", "volume", "network-interface"),
    }
    tags = {x["Key"]: x["Value"] for x in made["TagSpecifications"][0]["Tags"]}
    assert tags["windlass:cluster"] == "test-cluster"
    assert tags["windlass:created-at"] == "12.5"
    assert tags["Name"] == "determined-ai-agent"
    assert (made["IamInstanceProfile"], made["KeyName"]) == ({"Arn": "arn:x"}, "ops")
    assert "InstanceMarketOptions" not in made


def test_spot_is_asked_for_once_and_ended_when_taken_back() -> None:
    made = call(markets=("spot",), spot_max_price="9.5")
    assert made["InstanceMarketOptions"] == {
        "MarketType": "spot",
        "SpotOptions": {
            "SpotInstanceType": "one-time",
            "InstanceInterruptionBehavior": "terminate",
            "MaxPrice": "9.5",
        },
    }
    assert {x["ResourceType"] for x in made["TagSpecifications"]} == {
        *("instance", "volume", "network-interface", "spot-instances-request"),
    }


def test_reservations_and_blocks_are_named() -> None:
    reserved = call(reservations=("cr-1",), markets=())
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    assert reserved["CapacityReservationSpecification"] == target
    assert "InstanceMarketOptions" not in reserved
    block = call(reservations=("cr-2",), markets=())
    assert block["InstanceMarketOptions"] == {"MarketType": "capacity-block"}


def test_efa_has_an_interface_for_each_card_and_no_public_address() -> None:
    made = call(efa=True, placement_group="near")
    assert made["Placement"] == {"AvailabilityZone": "us-east-1a", "GroupName": "near"}
    interfaces = made["NetworkInterfaces"]
    assert [(x["NetworkCardIndex"], x["DeviceIndex"]) for x in interfaces] == [
        *((0, 0), (1, 1), (2, 1), (3, 1)),
    ]
    assert {x["InterfaceType"] for x in interfaces} == {"efa"}
    assert not any("AssociatePublicIpAddress" in x for x in interfaces)


def test_a_launch_template_is_the_base() -> None:
    made = call(launch_template="agents:3", image_id="")
    assert made["LaunchTemplate"] == {"LaunchTemplateName": "agents", "Version": "3"}
    assert "ImageId" not in made
    by_id = call(launch_template="lt-01")
    assert by_id["LaunchTemplate"] == {"LaunchTemplateId": "lt-01", "Version": "$Default"}


def test_a_subnet_pins_its_zone() -> None:
    assert [x.key.zone for x in sold(subnets=("subnet-9",))] == ["us-east-1b"]
    made = call(subnets=("subnet-9",), network_interface=AwsNetwork(public_ip=False))
    (interface,) = made["NetworkInterfaces"]
    assert interface["SubnetId"] == "subnet-9"
    assert interface["AssociatePublicIpAddress"] is False


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_id": "ami-9"}, "there is no image ami-9 in us-east-1 that this account may use"),
        ({"image_id": ""}, "no SSM parameter in us-east-1 names an image for p4d.24xlarge"),
        ({"subnets": ("subnet-0",)}, "there is no subnet subnet-0 in us-east-1"),
        ({"zones": ("us-east-1z",)}, "pool gpu has no subnet in us-east-1z"),
        (
            {"instance_type": "g5g.xlarge"},
            "image ami-1 is for x86_64, and g5g.xlarge is arm64: correct image_id or instance_type of pool gpu",
        ),
        ({"instance_type": "m5.large", "efa": True}, "m5.large has no EFA"),
    ],
)
def test_what_ec2_would_refuse_is_refused_with_a_way_out(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refusal) as refused:
        call(**changes)
    assert refused.value.kind is BlockKind.CONFIG
    assert refused.value.message.startswith(said)


def test_families_have_the_quotas_of_aws() -> None:
    families = {
        "p5.48xlarge": "P",
        "g5.xlarge": "G and VT",
        "vt1.3xlarge": "G and VT",
        "inf2.xlarge": "Inf",
        "trn1.32xlarge": "Trn",
        "m5.large": "Standard",
        "i3.large": "Standard",
    }
    assert {name: quota_family(name) for name in families} == families
    assert quota_code("P", spot=False) == "L-417A185B"
    assert quota_code("Standard", spot=True) == "L-34B43A08"


def test_zones_of_a_region() -> None:
    assert is_zone_of("us-west-2a", "us-west-2")
    assert is_zone_of("us-west-2-lax-1a", "us-west-2")
    assert not is_zone_of("us-west-1a", "us-west-2")
    assert not is_zone_of("us-west-2", "us-west-2")
