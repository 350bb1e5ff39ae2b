"""Every refusal of EC2 as it words it: its kind, what it is true for, and the way out."""

from __future__ import annotations

import pytest

from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.providers.aws.client import AwsError
from provisioner.providers.aws.errors import refused_call, refused_launch
from provisioner.providers.errors import Refusal, TokenSpent
from provisioner.types import Market, Offer, OfferKey, Scope

K = BlockKind


def an_offer(market: Market = Market.ON_DEMAND, **more: str) -> Offer:
    return Offer(
        key=OfferKey(
            provider="aws-us-east-1",
            region="us-east-1",
            zone="us-east-1a",
            instance_type="g4dn.xlarge",
            market=market,
            **more,
        ),
        slots=1,
        usd_per_hour=0.5,
        boot_s=180.0,
        family="G and VT",
        image="ami-1",
    )


def refused(
    code: str, message: str = "said", status: int = 400, offer: Offer | None = None
) -> Refusal:
    error = refused_launch(AwsError(code, message, status=status), offer or an_offer())
    assert isinstance(error, Refusal)
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InsufficientInstanceCapacity", K.CAPACITY),
        ("InsufficientHostCapacity", K.CAPACITY),
        ("UnfulfillableCapacity", K.CAPACITY),
        ("SpotMaxPriceTooLow", K.CAPACITY),
        ("Unsupported", K.UNSUPPORTED),
        ("ReservationCapacityExceeded", K.RESERVATION),
        ("InvalidCapacityReservationId.NotFound", K.RESERVATION),
        ("VcpuLimitExceeded", K.QUOTA),
        ("MaxSpotInstanceCountExceeded", K.QUOTA),
        ("InstanceLimitExceeded", K.QUOTA),
        ("MaxFleetCountExceeded", K.QUOTA),
        ("InsufficientFreeAddressesInSubnet", K.NETWORK),
        ("RequestLimitExceeded", K.THROTTLED),
        ("Throttling", K.THROTTLED),
        ("EC2ThrottledException", K.THROTTLED),
        ("UnauthorizedOperation", K.CONFIG),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", K.CONFIG),
        ("InvalidAMIID.NotFound", K.CONFIG),
        ("InvalidAMIID.Malformed", K.CONFIG),
        ("InvalidSubnetID.NotFound", K.CONFIG),
        ("InvalidGroup.NotFound", K.CONFIG),
        ("InvalidKeyPair.NotFound", K.CONFIG),
        ("InvalidParameterValue", K.CONFIG),
        ("InvalidParameterCombination", K.CONFIG),
        ("InvalidUserData.Malformed", K.CONFIG),
        ("InvalidLaunchTemplateName.NotFoundException", K.CONFIG),
        ("OptInRequired", K.CONFIG),
        ("PendingVerification", K.CONFIG),
        ("InvalidPlacementGroup.Unknown", K.PLACEMENT),
        ("ExpiredToken", K.AUTH),
        ("RequestExpired", K.AUTH),
        ("AuthFailure", K.AUTH),
        ("InvalidClientTokenId", K.AUTH),
        ("SignatureDoesNotMatch", K.AUTH),
        ("InternalError", K.TRANSIENT),
        ("ServiceUnavailable", K.TRANSIENT),
        ("NeverHeardOf", K.UNKNOWN),
    ],
)
def test_a_code_is_of_a_kind(code: str, kind: BlockKind) -> None:
    offer = an_offer(Market.SPOT)
    error = refused(code, offer=offer)
    assert error.kind is kind
    assert code in error.message
    assert (error.scope or scope_of(kind, offer)).covers(offer)


def test_a_trouble_of_ec2_that_nobody_knows_is_passing() -> None:
    assert refused("NeverHeardOf", status=500).kind is K.TRANSIENT


@pytest.mark.parametrize("code", ["IdempotentParameterMismatch", "IdempotentInstanceTerminated"])
def test_a_spent_token_is_no_refusal(code: str) -> None:
    assert isinstance(refused_launch(AwsError(code, ""), an_offer()), TokenSpent)


def test_a_full_placement_group_is_no_stock_out() -> None:
    full = refused(
        "InsufficientInstanceCapacity",
        "You have reached the limit of instances in this spread placement group.",
    )
    assert full.kind is K.PLACEMENT


@pytest.mark.parametrize(
    ("market", "code"), [(Market.ON_DEMAND, "L-DB2E81BA"), (Market.SPOT, "L-3819A6DF")]
)
def test_a_quota_has_its_code_its_number_and_the_way_out(market: Market, code: str) -> None:
    error = refused(
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the "
        "instance bucket that the specified instance type belongs to.",
        offer=an_offer(market),
    )
    assert error.number == 32.0
    assert code in error.quota
    assert "quota of 32 of" in error.message
    assert "Service Quotas" in error.message


@pytest.mark.parametrize(
    ("code", "scope"),
    [
        ("UnauthorizedOperation", Scope(provider="aws-us-east-1")),
        (
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            Scope(provider="aws-us-east-1", market=Market.SPOT),
        ),
        ("InvalidAMIID.NotFound", Scope(provider="aws-us-east-1", image="ami-1")),
        (
            "InvalidSubnetID.NotFound",
            Scope(provider="aws-us-east-1", region="us-east-1", zone="us-east-1a"),
        ),
        ("InvalidKeyPair.NotFound", Scope(provider="aws-us-east-1", instance_type="g4dn.xlarge")),
    ],
)
def test_a_wrong_setting_blocks_what_it_is_true_for(code: str, scope: Scope) -> None:
    assert refused(code, offer=an_offer(Market.SPOT)).scope == scope


def test_what_only_aws_can_read_is_left_out() -> None:
    error = refused(
        "UnauthorizedOperation",
        "You are not authorized to perform this operation.\nEncoded authorization failure "
        "message: a-Bc_9",
    )
    assert error.message == (
        "UnauthorizedOperation: You are not authorized to perform this operation.; "
        "see what is missing with windlass master check --cloud"
    )


def test_of_other_calls_only_throttling_and_credentials_have_a_kind() -> None:
    throttled = refused_call(AwsError("RequestLimitExceeded", "x", operation="describe_instances"))
    assert isinstance(throttled, Refusal)
    assert throttled.kind is K.THROTTLED
    other = refused_call(AwsError("InternalError", "x", operation="describe_instances"))
    assert not isinstance(other, Refusal)
    assert "describe_instances" in other.message
