"""What EC2's refusals mean: code -> kind, what it is true for, and the way out. Pure.

The codes are those of EC2's API reference, grouped as in docs/buying-machines.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from provisioner.providers.aws.client import AwsError
from provisioner.providers.aws.names import quota_name
from provisioner.providers.errors import Refusal, TokenSpent
from provisioner.refusals import BlockKind
from provisioner.types import Market, Offer, Scope
from windlass.base.errors import ProviderError

MAX_SAID = 400
_NUMBER = re.compile(r"(?:limit of|quota of|limit is|maximum of) (\d+)", re.IGNORECASE)
_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+")
_SPENT = frozenset({"IdempotentParameterMismatch", "IdempotentInstanceTerminated"})


class _Rule(NamedTuple):
    codes: str
    """A pattern of the whole code."""
    kind: BlockKind
    scope: Callable[[Offer], Scope | None]
    hint: str = ""
    text: str = ""
    """A pattern that the message must contain."""


def _usual(offer: Offer) -> None:
    """What is usual for the kind."""


def _account(offer: Offer) -> Scope:
    return Scope(provider=offer.key.provider)


def _type(offer: Offer) -> Scope:
    """Machines of one type are made alike: with one key pair, profile and template."""
    return Scope(provider=offer.key.provider, instance_type=offer.key.instance_type)


def _image(offer: Offer) -> Scope:
    return Scope(provider=offer.key.provider, image=offer.image)


def _subnet(offer: Offer) -> Scope:
    key = offer.key
    return Scope(provider=key.provider, region=key.region, zone=key.zone)


def _spot(offer: Offer) -> Scope:
    return Scope(provider=offer.key.provider, market=Market.SPOT)


def _reserved(offer: Offer) -> Scope | None:
    """Without a reservation in the offer it is no reservation of ours that is used up."""
    return None if offer.key.reservation else Scope.of(offer.key)


_RULES: Sequence[_Rule] = (
    _Rule(
        r"InsufficientInstanceCapacity",
        BlockKind.PLACEMENT,
        _usual,
        "the placement group is full: use another",
        text="limit of instances in this (spread )?placement group",
    ),
    _Rule(
        r"InsufficientInstanceCapacity|InsufficientHostCapacity|InsufficientCapacity.*"
        r"|UnfulfillableCapacity|SpotMaxPriceTooLow",
        BlockKind.CAPACITY,
        _usual,
    ),
    _Rule(r"Unsupported", BlockKind.UNSUPPORTED, _usual),
    _Rule(
        r"ReservationCapacityExceeded|InvalidCapacityReservation.*|CapacityReservation.*",
        BlockKind.RESERVATION,
        _reserved,
        "see reservations of the pool in master.yaml",
    ),
    _Rule(
        r"VcpuLimitExceeded|MaxSpotInstanceCountExceeded|InstanceLimitExceeded"
        r"|MaxFleetCountExceeded|MaxSpotFleetRequestCountExceeded",
        BlockKind.QUOTA,
        _usual,
    ),
    _Rule(
        r"VolumeLimitExceeded|NetworkInterfaceLimitExceeded|AddressLimitExceeded",
        BlockKind.QUOTA,
        _account,
    ),
    _Rule(
        r"InsufficientFreeAddressesInSubnet|InsufficientAddressCapacity",
        BlockKind.NETWORK,
        _usual,
        "give the pool a larger subnet, or more of them",
    ),
    _Rule(
        r"RequestLimitExceeded|Throttling.*|EC2ThrottledException|RequestThrottled.*|SlowDown"
        r"|TooManyRequests.*|PriorRequestNotComplete|BandwidthLimitExceeded",
        BlockKind.THROTTLED,
        _usual,
    ),
    _Rule(
        r"AuthFailure\.ServiceLinkedRoleCreationNotPermitted",
        BlockKind.CONFIG,
        _spot,
        "create the service-linked role AWSServiceRoleForEC2Spot once: "
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
    _Rule(
        r"UnauthorizedOperation|AccessDenied.*",
        BlockKind.CONFIG,
        _account,
        "see what is missing with windlass master check --cloud",
    ),
    _Rule(
        r"OptInRequired|PendingVerification|Blocked|InvalidInstanceFamily",
        BlockKind.CONFIG,
        _account,
    ),
    _Rule(
        r"ExpiredToken.*|RequestExpired|AuthFailure.*|InvalidClientTokenId"
        r"|UnrecognizedClient.*|SignatureDoesNotMatch|InvalidAccessKeyId|IncompleteSignature"
        r"|MissingAuthenticationToken",
        BlockKind.AUTH,
        _usual,
        "renew the master's credentials for AWS",
    ),
    _Rule(
        r"InvalidAMIID.*|InvalidBlockDeviceMapping",
        BlockKind.CONFIG,
        _image,
        "correct image_id or image_parameter of the pool",
    ),
    _Rule(
        r"InvalidSubnet.*|InvalidZone.*",
        BlockKind.CONFIG,
        _subnet,
        "correct subnets, zones or network_interface.subnet_id of the pool",
    ),
    _Rule(
        r"InvalidPlacementGroup.*",
        BlockKind.PLACEMENT,
        _usual,
        "correct placement_group of the pool",
    ),
    _Rule(
        r"InvalidGroup.*|InvalidSecurityGroup.*",
        BlockKind.CONFIG,
        _type,
        "correct network_interface.security_group_id of the pool",
    ),
    _Rule(
        r"InvalidKeyPair.*|InvalidKey\.Format",
        BlockKind.CONFIG,
        _type,
        "correct ssh_key_name of the pool",
    ),
    _Rule(
        r"InvalidParameter.*",
        BlockKind.CONFIG,
        _type,
        "correct iam_instance_profile_arn of the pool",
        text="(?i)instance ?profile",
    ),
    _Rule(
        r"InvalidLaunchTemplate.*",
        BlockKind.CONFIG,
        _type,
        "correct launch_template of the pool",
    ),
    _Rule(
        r"Invalid.*|Missing.*|Unknown.*|Malformed.*|ParamValidationError|Encrypted.*|KMS.*|Client\..*",
        BlockKind.CONFIG,
        _type,
        "correct the pool in master.yaml",
    ),
    _Rule(
        r"InternalError|InternalFailure|ServiceUnavailable.*|Unavailable|Server\.Internal.*"
        r"|IdempotentRequestInProgress",
        BlockKind.TRANSIENT,
        _usual,
    ),
)


def refused_launch(error: AwsError, offer: Offer) -> ProviderError:
    """What to raise for a RunInstances that was answered so."""
    said = said_by(error)
    if error.code in _SPENT:
        return TokenSpent(said)
    rule = _rule_of(error)
    kind = BlockKind.UNKNOWN if rule is None else rule.kind
    if rule is None and error.status >= 500:
        kind = BlockKind.TRANSIENT
    if kind is BlockKind.QUOTA and rule is not None and rule.scope is _usual:
        return _quota(error, offer)
    hint = f"; {rule.hint}" if rule is not None and rule.hint else ""
    scope = None if rule is None else rule.scope(offer)
    return Refusal(kind, f"{said}{hint}", scope=scope)


def refused_start(error: AwsError, offer: Offer) -> ProviderError:
    """What to raise for a StartInstances that was answered so. One that is still stopping can be started later."""
    if error.code == "IncorrectInstanceState":
        return Refusal(BlockKind.TRANSIENT, said_by(error))
    return refused_launch(error, offer)


def refused_stop(error: AwsError) -> ProviderError:
    """What to raise for a StopInstances that was answered so; what is no refusal is asked again."""
    rule = _rule_of(error)
    if (rule is None and error.status >= 500) or (rule and rule.kind is BlockKind.TRANSIENT):
        return Refusal(BlockKind.TRANSIENT, said_by(error))
    return refused_call(error)


def refused_call(error: AwsError) -> ProviderError:
    """What to raise for any other call that was answered so."""
    rule = _rule_of(error)
    if rule is not None and rule.kind in (BlockKind.THROTTLED, BlockKind.AUTH):
        hint = f"; {rule.hint}" if rule.hint else ""
        return Refusal(rule.kind, f"{said_by(error)}{hint}")
    return ProviderError(f"{error.operation}: {said_by(error)}")


def said_by(error: AwsError) -> str:
    """In one line, without what only AWS can read."""
    text = " ".join(_ENCODED.sub("", error.message).split())
    return f"{error.code}: {text[:MAX_SAID]}" if text else error.code


def _rule_of(error: AwsError) -> _Rule | None:
    return next(
        (
            rule
            for rule in _RULES
            if re.fullmatch(rule.codes, error.code)
            and (not rule.text or re.search(rule.text, error.message))
        ),
        None,
    )


def _quota(error: AwsError, offer: Offer) -> Refusal:
    name = quota_name(offer.family, spot=offer.key.market is Market.SPOT)
    found = _NUMBER.search(error.message)
    number = float(found.group(1)) if found else None
    limit = f" of {found.group(1)}" if found else ""
    return Refusal(
        BlockKind.QUOTA,
        f"the quota{limit} of {name} in {offer.key.region} is used up: ask AWS for more in "
        f"Service Quotas ({said_by(error)})",
        quota=name,
        number=number,
    )
