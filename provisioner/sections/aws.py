"""`provider` sections of type aws: machines of Amazon EC2."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from master.core.expconf.models.schema import (
    Integer,
    Item,
    Items,
    NonNegative,
    Section,
)
from master.core.expconf.parsing.errors import nearest
from provisioner.money.price_book import known_types
from provisioner.providers.aws.names import REGIONS, TYPE_NAME, is_zone_of
from provisioner.sections.cloud import (
    OUR_LOGS,
    CloudSection,
    PoolMachines,
    check_region,
    shaped,
)
from provisioner.types import Market
from windlass.base.instance_types import why_unusable

MAX_TAGS = 50
OUR_TAGS = 14
"""So many tags a machine gets from us."""
_PRICE = re.compile(r"\d+\.?\d*|\d*\.\d+")


def _region(value: str | None) -> str | None:
    pattern = r"[a-z]+(-[a-z]+)+-\d+"
    return check_region(value, of="AWS", known=REGIONS, pattern=pattern, example="us-east-1")


def _tag_key(value: str) -> str:
    if value.lower().startswith("aws:") or value.startswith("windlass:"):
        raise ValueError(f'"{value}" is reserved: use another key')
    return value


TagKey = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_tag_key)]
TagValue = Annotated[str, Field(max_length=256)]
Subnet = Annotated[
    str, shaped('the id of a subnet, such as "subnet-0a1b2c3d"', r"subnet-[0-9a-f]+")
]
SecurityGroup = Annotated[
    str, shaped('the id of a security group, such as "sg-0a1b2c3d"', r"sg-[0-9a-f]+")
]
Image = Annotated[str, shaped('the id of an image, such as "ami-0a1b2c3d"', r"ami-[0-9a-f]+")]
Reservation = Annotated[
    str, shaped('the id of a capacity reservation, such as "cr-0a1b2c3d"', r"cr-[0-9a-f]+")
]
Profile = Annotated[
    str,
    shaped(
        'the ARN of an instance profile, such as "arn:aws:iam::123456789012:instance-profile/agents"',
        r"arn:aws[a-z-]*:iam::\d{12}:instance-profile/.+",
    ),
]
Role = Annotated[
    str,
    shaped(
        'the ARN of a role, such as "arn:aws:iam::123456789012:role/windlass"',
        r"arn:aws[a-z-]*:iam::\d{12}:role/.+",
    ),
]


class Tag(Item):
    """A tag of every machine, its disks and its network interfaces."""

    key: TagKey
    """Its name."""
    value: TagValue
    """Its value."""


class AwsNetwork(Section):
    """Where machines are in the network."""

    public_ip: bool = True
    """Whether machines get public addresses."""
    subnet_id: Subnet = ""
    """All machines are in this subnet, and so in its zone. Empty: the default subnet of each zone, or `subnets`."""
    security_group_id: SecurityGroup = ""
    """Empty: the default group of the network."""


class AwsSection(CloudSection):
    """Machines of Amazon EC2.

    Credentials are found in the usual places: variables, shared files, the role of the master's machine.
    """

    type: Literal["aws"]
    """Others are refused."""
    region: Annotated[str | None, AfterValidator(_region)] = None
    """None: AWS_REGION or AWS_DEFAULT_REGION, else that of the master's machine."""
    zones: Items[str] = ()
    """Our own key: the zones in which machines are bought. Empty: all."""
    assume_role: Role = ""
    """Our own key: the ARN of a role for everything that is done in this account. Empty: as the credentials are."""
    external_id: str = ""
    """Our own key: what that role asks of those who assume it."""
    interruption_queue: Annotated[str, Field(pattern=r"^(https?://.*)?$")] = ""
    """Our own key: the URL of an SQS queue that receives EC2's events of spot interruptions and rebalancing. Agents
    see these on their machines, too."""
    instance_slots: NonNegative | None = None
    """Slots of each, where `instance_type` is one that this release does not know. None: its GPUs."""
    instance_type: str = "g4dn.metal"
    """What is bought. A pool may have several sections, each with its own."""
    cpu_slots_allowed: bool = False
    """Whether a machine without GPUs has one slot."""
    spot: bool = False
    """Whether spot machines are bought, and no others. See `markets`."""
    spot_max_price: str = ""
    """In USD per hour; "OnDemand" or empty: the price on demand."""
    markets: Items[Literal["spot", "on_demand"]] = ()
    """Our own key: spot, on_demand or both. Empty: as `spot` says."""
    reservations: Items[Reservation] = ()
    """Our own key: ids of capacity reservations and capacity blocks, which are used first. With `markets` empty and
    `spot` false nothing else is bought."""
    placement_group: Annotated[str, Field(max_length=255)] = ""
    """Our own key: the name of a cluster placement group, made if it does not exist. Empty: anywhere in a zone."""
    efa: bool = False
    """Our own key: an EFA interface for each network card. The security group must allow itself all traffic."""
    image_id: Image = ""
    """What machines boot. Empty: what `image_parameter` names."""
    image_parameter: str = ""
    """Our own key: an SSM parameter that holds the id of the image, `{arch}` standing for x86_64 or arm64. Empty: an
    Ubuntu, with NVIDIA's driver for types with GPUs."""
    launch_template: str = ""
    """Our own key: the id or name of a launch template, `:VERSION` may follow. What this section says comes over it."""
    root_volume_size: Annotated[Integer, Field(ge=100)] = 200
    """Of the disk, in GB: gp3, encrypted, deleted with its machine."""
    network_interface: AwsNetwork = AwsNetwork()
    """Where machines are in the network."""
    subnets: Items[Subnet] = ()
    """Our own key: subnets, at most one in each zone."""
    iam_instance_profile_arn: Profile = ""
    """What machines, and tasks on them, may do in AWS."""
    ssh_key_name: str = ""
    """The key pair of machines. Empty: none, nobody logs in."""
    tag_key: TagKey = "managed_by"
    """A tag that says whose machines they are, for people; the master goes by tags of its own."""
    tag_value: TagValue = "windlass"
    """Its value."""
    instance_name: TagValue = "determined-ai-agent"
    """The tag `Name` of machines."""
    custom_tags: Items[Tag] = ()
    """More tags."""
    log_group: Annotated[str, OUR_LOGS] = ""
    """Of CloudWatch."""
    log_stream: Annotated[str, OUR_LOGS] = ""
    """Of CloudWatch."""

    @field_validator("zones")
    @classmethod
    def _zones_of_region(cls, zones: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        region = info.data.get("region")
        for zone in zones:
            if region is not None and not is_zone_of(zone, region):
                near = f"{region}{zone[-1:]}" if zone[-1:].isalpha() else f"{region}a"
                raise ValueError(f'"{zone}" is no zone of {region}: did you mean "{near}"?')
        return zones

    @field_validator("instance_type")
    @classmethod
    def _known_instance_type(cls, name: str, info: ValidationInfo) -> str:
        says_slots = info.data.get("instance_slots") is not None
        if why := why_unusable(name, says_slots=says_slots):
            raise ValueError(why)
        if name in known_types("aws"):
            return name
        if says_slots and TYPE_NAME.fullmatch(name):
            return name
        near = nearest(name, known_types("aws"))
        meant = f'did you mean "{near}"? Else' if near else "if AWS has it,"
        raise ValueError(f'"{name}" is no known instance type: {meant} give instance_slots')

    @field_validator("spot_max_price")
    @classmethod
    def _is_price(cls, price: str) -> str:
        if price and price.lower() != "ondemand" and not _PRICE.fullmatch(price):
            raise ValueError(f'"{price}" is no price: write USD per hour, such as "1.25"')
        return price

    @field_validator("markets")
    @classmethod
    def _markets_once(cls, markets: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if len(set(markets)) < len(markets):
            raise ValueError("a market is named twice: remove one")
        if markets and info.data.get("spot") and "spot" not in markets:
            raise ValueError("does not contain spot, but spot is true: remove spot")
        return markets

    @field_validator("image_parameter")
    @classmethod
    def _one_image(cls, path: str, info: ValidationInfo) -> str:
        if path and info.data.get("image_id"):
            raise ValueError("give either image_id or image_parameter, not both")
        return path

    @field_validator("launch_template")
    @classmethod
    def _is_template(cls, template: str) -> str:
        if template and not re.fullmatch(r"[\w()./-]{3,128}(:(\d+|\$Default|\$Latest))?", template):
            raise ValueError(
                f'"{template}" is no launch template: write its id or name, or "NAME:3"'
            )
        return template

    @field_validator("subnets")
    @classmethod
    def _subnet_or_subnets(cls, subnets: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        network = info.data.get("network_interface")
        if subnets and isinstance(network, AwsNetwork) and network.subnet_id:
            raise ValueError("give either subnets or network_interface.subnet_id, not both")
        return subnets

    @field_validator("custom_tags")
    @classmethod
    def _tags_once(cls, tags: tuple[Tag, ...], info: ValidationInfo) -> tuple[Tag, ...]:
        keys = [tag.key for tag in tags]
        twice = {key for key in keys if keys.count(key) > 1}
        twice |= {"Name", info.data.get("tag_key", "")} & set(keys)
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))}: given twice")
        if len(tags) > MAX_TAGS - OUR_TAGS:
            raise ValueError(f"has {len(tags)} tags: at most {MAX_TAGS - OUR_TAGS} beside ours")
        return tags

    @property
    def bought_markets(self) -> tuple[Market, ...]:
        """What is bought beside reservations."""
        if self.markets:
            return tuple(Market(name) for name in self.markets)
        if self.spot:
            return (Market.SPOT,)
        return () if self.reservations else (Market.ON_DEMAND,)

    @property
    def max_price(self) -> str:
        return "" if self.spot_max_price.lower() == "ondemand" else self.spot_max_price

    @property
    def kind(self) -> str:
        return self.instance_type

    @property
    def all_subnets(self) -> tuple[str, ...]:
        """Empty: the default subnets."""
        own = self.network_interface.subnet_id
        return (own,) if own else self.subnets

    @property
    def all_tags(self) -> dict[str, str]:
        """The operator's."""
        more = {tag.key: tag.value for tag in self.custom_tags}
        return {"Name": self.instance_name, self.tag_key: self.tag_value, **more}


AwsMachines: TypeAlias = PoolMachines[AwsSection]
