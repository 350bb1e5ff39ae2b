"""What EC2's refusals mean: code -> kind, what it is true for, and the way out. Pure.

The codes are those of EC2's API reference, grouped as in docs/buying-machines.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.aws.client import AwsError
from provisioner.providers.aws.names import quota_name
from provisioner.providers.errors import Refusal, TokenSpent
from provisioner.providers.refusal_rules import (
    RefusalRule,
    first_rule,
    in_one_line,
    same_image,
    same_type,
    usual,
    whole_account,
    without_reservation,
)
from provisioner.types import Market, Offer, Scope
from windlass.base.errors import ProviderError

_NUMBER = re.compile(r"(?:limit of|quota of|limit is|maximum of) (\d+)", re.IGNORECASE)
_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+")
_SPENT = frozenset({"IdempotentParameterMismatch", "IdempotentInstanceTerminated"})


def _subnet(offer: Offer) -> Scope:
    key = offer.key
    return Scope(provider=key.provider, region=key.region, zone=key.zone)


def _spot(offer: Offer) -> Scope:
    return Scope(provider=offer.key.provider, market=Market.SPOT)


_RULES: Sequence[RefusalRule] = (
    RefusalRule(
        r"InsufficientInstanceCapacity",
        BlockKind.PLACEMENT,
        usual,
        "the placement group is full: use another",
        text="limit of instances in this (spread )?placement group",
    ),
    RefusalRule(
        r"InsufficientInstanceCapacity|InsufficientHostCapacity|InsufficientCapacity.*"
        r"|UnfulfillableCapacity|SpotMaxPriceTooLow",
        BlockKind.CAPACITY,
        usual,
    ),
    RefusalRule(r"Unsupported", BlockKind.UNSUPPORTED, usual),
    RefusalRule(
        r"ReservationCapacityExceeded|InvalidCapacityReservation.*|CapacityReservation.*",
        BlockKind.RESERVATION,
        without_reservation,
        "see reservations of the pool in master.yaml",
    ),
    RefusalRule(
        r"VcpuLimitExceeded|MaxSpotInstanceCountExceeded|InstanceLimitExceeded"
        r"|MaxFleetCountExceeded|MaxSpotFleetRequestCountExceeded",
        BlockKind.QUOTA,
        usual,
    ),
    RefusalRule(
        r"VolumeLimitExceeded|NetworkInterfaceLimitExceeded|AddressLimitExceeded",
        BlockKind.QUOTA,
        whole_account,
    ),
    RefusalRule(
        r"InsufficientFreeAddressesInSubnet|InsufficientAddressCapacity",
        BlockKind.NETWORK,
        usual,
        "give the pool a larger subnet, or more of them",
    ),
    RefusalRule(
        r"RequestLimitExceeded|Throttling.*|EC2ThrottledException|RequestThrottled.*|SlowDown"
        r"|TooManyRequests.*|PriorRequestNotComplete|BandwidthLimitExceeded",
        BlockKind.THROTTLED,
        usual,
    ),
    RefusalRule(
        r"AuthFailure\.ServiceLinkedRoleCreationNotPermitted",
        BlockKind.CONFIG,
        _spot,
        "create the service-linked role AWSServiceRoleForEC2Spot once: "
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
    RefusalRule(
        r"UnauthorizedOperation|AccessDenied.*",
        BlockKind.CONFIG,
        whole_account,
        "see what is missing with windlass master check --cloud",
    ),
    RefusalRule(
        r"OptInRequired|PendingVerification|Blocked|InvalidInstanceFamily",
        BlockKind.CONFIG,
        whole_account,
    ),
    RefusalRule(
        r"ExpiredToken.*|RequestExpired|AuthFailure.*|InvalidClientTokenId"
        r"|UnrecognizedClient.*|SignatureDoesNotMatch|InvalidAccessKeyId|IncompleteSignature"
        r"|MissingAuthenticationToken",
        BlockKind.AUTH,
        usual,
        "renew the master's credentials for AWS",
    ),
    RefusalRule(
        r"InvalidAMIID.*|InvalidBlockDeviceMapping",
        BlockKind.CONFIG,
        same_image,
        "correct image_id or image_parameter of the pool",
    ),
    RefusalRule(
        r"InvalidSubnet.*|InvalidZone.*",
        BlockKind.CONFIG,
        _subnet,
        "correct subnets, zones or network_interface.subnet_id of the pool",
    ),
    RefusalRule(
        r"InvalidPlacementGroup.*",
        BlockKind.PLACEMENT,
        usual,
        "correct placement_group of the pool",
    ),
    RefusalRule(
        r"InvalidGroup.*|InvalidSecurityGroup.*",
        BlockKind.CONFIG,
        same_type,
        "correct network_interface.security_group_id of the pool",
    ),
    RefusalRule(
        r"InvalidKeyPair.*|InvalidKey\.Format",
        BlockKind.CONFIG,
        same_type,
        "correct ssh_key_name of the pool",
    ),
    RefusalRule(
        r"InvalidParameter.*",
        BlockKind.CONFIG,
        same_type,
        "correct iam_instance_profile_arn of the pool",
        text="(?i)instance ?profile",
    ),
    RefusalRule(
        r"InvalidLaunchTemplate.*",
        BlockKind.CONFIG,
        same_type,
        "correct launch_template of the pool",
    ),
    RefusalRule(
        r"Invalid.*|Missing.*|Unknown.*|Malformed.*|ParamValidationError|Encrypted.*|KMS.*|Client\..*",
        BlockKind.CONFIG,
        same_type,
        "correct the pool in master.yaml",
    ),
    RefusalRule(
        r"InternalError|InternalFailure|ServiceUnavailable.*|Unavailable|Server\.Internal.*"
        r"|IdempotentRequestInProgress",
        BlockKind.TRANSIENT,
        usual,
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
    if kind is BlockKind.QUOTA and rule is not None and rule.scope is usual:
        return _quota(error, offer)
    if rule is None:
        return Refusal(kind, said)
    return Refusal(kind, rule.applied_to(said), scope=rule.scope(offer))


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
        return Refusal(rule.kind, rule.applied_to(said_by(error)))
    return ProviderError(f"{error.operation}: {said_by(error)}")


def said_by(error: AwsError) -> str:
    """In one line, without what only AWS can read."""
    return in_one_line(error.code, _ENCODED.sub("", error.message))


def _rule_of(error: AwsError) -> RefusalRule | None:
    return first_rule(_RULES, error.code, error.message)


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
