"""The whole of a RunInstances call, but its token and user data. Made once, kept with the intent. Pure."""

from __future__ import annotations

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.aws.catalogue import Catalogue, MachineImage, TypeFacts
from provisioner.providers.aws.offers import image_of
from provisioner.providers.aws.tags import tags_of
from provisioner.providers.base import LaunchIntent
from provisioner.providers.errors import Refusal
from provisioner.providers.images import is_bake
from provisioner.sections.aws import AwsMachines, AwsSection
from provisioner.types import Market, Scope
from windlass.base.formats.json_types import JsonMapping, JsonObject

TAGGED = ("instance", "volume", "network-interface")
"""What every launch makes; one of spot makes a request of that name, too."""
SPOT_REQUEST = "spot-instances-request"
HOPS, HOPS_TO_BRIDGES = 1, 2
"""How far answers of the metadata service go: containers on a bridge are one hop further."""


def run_instances(
    intent: LaunchIntent, machines: AwsMachines, facts: TypeFacts, catalogue: Catalogue
) -> JsonObject:
    """Plain JSON. Raises `Refusal` for what EC2 would refuse later, or take for something else."""
    key, section = intent.offer.key, machines.section
    image = image_of(section, facts, catalogue)
    if image is None and not section.launch_template:
        raise _no_image(intent, section)
    if image is not None and image.architecture != facts.architecture:
        raise _wrong_architecture(intent, image, facts)
    call: JsonObject = {
        "InstanceType": key.instance_type,
        "MinCount": intent.count,
        "MaxCount": intent.count,
        "Placement": _placement(intent),
        "NetworkInterfaces": _interfaces(intent, section, facts, catalogue),
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": HOPS_TO_BRIDGES if machines.open_metadata else HOPS,
        },
        # The disk of a machine that becomes an image stays until that exists.
        "InstanceInitiatedShutdownBehavior": "stop" if is_bake(intent.intent_id) else "terminate",
        "TagSpecifications": [
            {
                "ResourceType": resource,
                "Tags": [{"Key": k, "Value": v} for k, v in tags_of(intent, section).items()],
            }
            for resource in (*TAGGED, *((SPOT_REQUEST,) if key.market is Market.SPOT else ()))
        ],
    }
    if image is not None:
        call["ImageId"] = image.id
        call["BlockDeviceMappings"] = [_root_disk(image, section)]
    if section.launch_template:
        name, _, version = section.launch_template.partition(":")
        by = "LaunchTemplateId" if name.startswith("lt-") else "LaunchTemplateName"
        call["LaunchTemplate"] = {by: name, "Version": version or "$Default"}
    if section.iam_instance_profile_arn:
        call["IamInstanceProfile"] = {"Arn": section.iam_instance_profile_arn}
    if section.ssh_key_name:
        call["KeyName"] = section.ssh_key_name
    return call | _market(intent, section)


def _placement(intent: LaunchIntent) -> JsonMapping:
    key = intent.offer.key
    group = {"GroupName": key.placement} if key.placement else {}
    return {"AvailabilityZone": key.zone, **group}


def _root_disk(image: MachineImage, section: AwsSection) -> JsonMapping:
    """By the image's own name of it: another would be a second disk."""
    return {
        "DeviceName": image.root_device,
        "Ebs": {
            "VolumeSize": section.root_volume_size,
            "VolumeType": "gp3",
            "Encrypted": True,
            "DeleteOnTermination": True,
        },
    }


def _interfaces(
    intent: LaunchIntent, section: AwsSection, facts: TypeFacts, catalogue: Catalogue
) -> list[JsonMapping]:
    """One; with EFA one for each network card that has it. EC2 gives public addresses to single interfaces only."""
    cards = min(facts.network_cards, facts.efa_interfaces) if section.efa else 0
    if section.efa and not cards:
        raise Refusal(
            BlockKind.CONFIG,
            f"{facts.name} has no EFA: remove efa from pool {intent.pool}, or choose another type",
            scope=Scope(provider=intent.offer.key.provider, instance_type=facts.name),
        )
    network = section.network_interface
    base: JsonObject = {"SubnetId": _subnet(intent, section, catalogue)}
    if network.security_group_id:
        base["Groups"] = [network.security_group_id]
    first: JsonObject = {"DeviceIndex": 0, "DeleteOnTermination": True, **base}
    if cards <= 1:
        first["AssociatePublicIpAddress"] = network.public_ip
    if cards:
        first |= {"InterfaceType": "efa", "NetworkCardIndex": 0}
    others = [
        {**base, "DeviceIndex": 1, "NetworkCardIndex": card, "InterfaceType": "efa"}
        | {"DeleteOnTermination": True}
        for card in range(1, cards)
    ]
    return [first, *others]


def _subnet(intent: LaunchIntent, section: AwsSection, catalogue: Catalogue) -> str:
    zone = intent.offer.key.zone
    wanted = section.all_subnets
    own = [catalogue.subnets[id_] for id_ in wanted if id_ in catalogue.subnets]
    found = next((subnet.id for subnet in own if subnet.zone == zone), None)
    if found is not None:
        return found
    missing = [id_ for id_ in wanted if id_ not in catalogue.subnets]
    if not wanted and zone in catalogue.default_subnets:
        return catalogue.default_subnets[zone].id
    key = intent.offer.key
    what = (
        f"there is no subnet {', '.join(missing)} in {key.region}"
        if missing
        else f"pool {intent.pool} has no subnet in {zone}, and there is no default subnet"
    )
    raise Refusal(
        BlockKind.CONFIG,
        f"{what}: correct subnets, zones or network_interface.subnet_id of the pool",
        scope=Scope(provider=key.provider, zone=zone, instance_type=key.instance_type),
    )


def _market(intent: LaunchIntent, section: AwsSection) -> JsonObject:
    key = intent.offer.key
    asked: JsonObject = {}
    if key.market is Market.SPOT:
        spot = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        if section.max_price:
            spot["MaxPrice"] = section.max_price
        asked["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": spot}
    elif key.market is Market.CAPACITY_BLOCK:
        asked["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    if key.reservation:
        target = {"CapacityReservationId": key.reservation}
        asked["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    return asked


def _no_image(intent: LaunchIntent, section: AwsSection) -> Refusal:
    key = intent.offer.key
    what = (
        f"there is no image {section.image_id} in {key.region} that this account may use"
        if section.image_id
        else f"no SSM parameter in {key.region} names an image for {key.instance_type}"
    )
    return Refusal(
        BlockKind.CONFIG,
        f"{what}: correct image_id or image_parameter of pool {intent.pool}",
        scope=Scope(provider=key.provider, instance_type=key.instance_type),
    )


def _wrong_architecture(intent: LaunchIntent, image: MachineImage, facts: TypeFacts) -> Refusal:
    return Refusal(
        BlockKind.CONFIG,
        f"image {image.id} is for {image.architecture}, and {facts.name} is {facts.architecture}: "
        f"correct image_id or instance_type of pool {intent.pool}",
        scope=Scope(provider=intent.offer.key.provider, instance_type=facts.name),
    )
