"""What refusals of Compute Engine mean, as the vendor words them: by HTTP, and inside operations."""

from __future__ import annotations

import pytest

from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.providers.errors import Refusal, TokenSpent
from provisioner.providers.gcp.client import GceError
from provisioner.providers.gcp.errors import refused_call, refused_launch
from provisioner.types import Market, Offer, OfferKey, Scope
from windlass.base.errors import ProviderError

KEY = OfferKey(
    provider="acme",
    region="us-central1",
    zone="us-central1-a",
    instance_type="a2-highgpu-8g",
    market=Market.SPOT,
)
OFFER = Offer(
    key=KEY,
    slots=8,
    usd_per_hour=10.0,
    boot_s=60.0,
    family="NVIDIA_A100_GPUS",
    image="projects/acme/global/images/windlass-1",
)
TYPE = Scope(provider="acme", instance_type="a2-highgpu-8g")
SITE = Scope(provider="acme")
IMAGE = Scope(provider="acme", image=OFFER.image)
THIS = Scope.of(KEY)

ROWS = [
    (
        "ZONE_RESOURCE_POOL_EXHAUSTED",
        0,
        "The zone does not have enough resources",
        BlockKind.CAPACITY,
        None,
    ),
    (
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        0,
        "(resource type:compute)",
        BlockKind.CAPACITY,
        None,
    ),
    ("RESOURCE_POOL_EXHAUSTED", 0, "exhausted", BlockKind.CAPACITY, None),
    ("INSUFFICIENT_CAPACITY", 0, "no capacity", BlockKind.CAPACITY, None),
    (
        "VM_MIN_COUNT_NOT_REACHED",
        0,
        "Requested minimum count of 2 VMs could not be created.",
        BlockKind.CAPACITY,
        None,
    ),
    (
        "UNSUPPORTED_OPERATION",
        0,
        "Instance was preempted during creation",
        BlockKind.CAPACITY,
        None,
    ),
    ("RESERVATION_NOT_FOUND", 0, "The reservation is not there", BlockKind.RESERVATION, THIS),
    ("RESERVATION_NOT_READY", 0, "not ready", BlockKind.RESERVATION, THIS),
    ("RESERVATION_CAPACITY_EXCEEDED", 0, "no room", BlockKind.RESERVATION, THIS),
    ("AUTOMATIC_RESERVATIONS_NOT_SUPPORTED", 0, "no", BlockKind.RESERVATION, THIS),
    (
        "QUOTA_EXCEEDED",
        0,
        "Quota 'NVIDIA_A100_GPUS' exceeded.  Limit: 8.0 in region us-central1.",
        BlockKind.QUOTA,
        None,
    ),
    (
        "quotaExceeded",
        403,
        "Quota 'PREEMPTIBLE_NVIDIA_A100_GPUS' exceeded.  Limit: 8.0 in region us-central1.",
        BlockKind.QUOTA,
        None,
    ),
    (
        "QUOTA_EXCEEDED",
        0,
        "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 8.0 globally.",
        BlockKind.QUOTA,
        Scope(provider="acme", family="NVIDIA_A100_GPUS"),
    ),
    (
        "QUOTA_EXCEEDED",
        0,
        "Quota 'IN_USE_ADDRESSES' exceeded.  Limit: 8.0 in region us-central1.",
        BlockKind.QUOTA,
        THIS,
    ),
    ("IP_SPACE_EXHAUSTED", 0, "IP space of 'a' is exhausted.", BlockKind.NETWORK, None),
    ("RESOURCE_POLICY_INCOMPATIBLE", 0, "too many", BlockKind.PLACEMENT, THIS),
    (
        "invalid",
        400,
        "The placement policy supports at most 22 instances",
        BlockKind.PLACEMENT,
        THIS,
    ),
    (
        "rateLimitExceeded",
        429,
        "Quota exceeded for quota metric 'Queries'",
        BlockKind.THROTTLED,
        None,
    ),
    ("userRateLimitExceeded", 403, "User Rate Limit Exceeded", BlockKind.THROTTLED, None),
    ("RESOURCE_OPERATION_RATE_EXCEEDED", 0, "Operation rate exceeded", BlockKind.THROTTLED, None),
    ("authError", 401, "Invalid Credentials", BlockKind.AUTH, None),
    ("forbidden", 403, "Required 'compute.instances.create' permission", BlockKind.CONFIG, SITE),
    ("PERMISSIONS_ERROR", 0, "Required 'compute.disks.create' permission", BlockKind.CONFIG, SITE),
    (
        "accessNotConfigured",
        403,
        "Compute Engine API has not been used in project 1",
        BlockKind.CONFIG,
        SITE,
    ),
    (
        "conditionNotMet",
        412,
        "Constraint constraints/compute.vmExternalIpAccess violated: external IP",
        BlockKind.CONFIG,
        TYPE,
    ),
    ("VM_EXTERNAL_IP_ACCESS_POLICY_CONSTRAINT", 0, "no external IP", BlockKind.CONFIG, TYPE),
    (
        "notFound",
        404,
        "The resource 'projects/acme/global/networks/x' was not found",
        BlockKind.CONFIG,
        TYPE,
    ),
    (
        "notFound",
        404,
        "The resource 'projects/acme/regions/r/subnetworks/x' was not found",
        BlockKind.CONFIG,
        TYPE,
    ),
    (
        "notFound",
        404,
        "The resource 'projects/acme/global/images/x' was not found",
        BlockKind.CONFIG,
        IMAGE,
    ),
    (
        "invalid",
        400,
        "Requested disk size cannot be smaller than the image size (50 GB)",
        BlockKind.CONFIG,
        IMAGE,
    ),
    (
        "notFound",
        404,
        "The resource of type 'serviceAccount' with id 'x' was not found",
        BlockKind.CONFIG,
        TYPE,
    ),
    (
        "invalid",
        400,
        "Machine type with name 'x' does not exist in zone 'z'.",
        BlockKind.UNSUPPORTED,
        None,
    ),
    ("invalid", 400, "Invalid value for field 'resource.labels'", BlockKind.CONFIG, TYPE),
    ("backendError", 503, "Internal error", BlockKind.TRANSIENT, None),
    ("INTERNAL_ERROR", 0, "Internal error", BlockKind.TRANSIENT, None),
    ("brandNew", 599, "?", BlockKind.TRANSIENT, None),
    ("NEVER_SEEN", 0, "Something new", BlockKind.UNKNOWN, None),
]


@pytest.mark.parametrize(("code", "status", "message", "kind", "scope"), ROWS)
def test_a_refusal_has_its_kind_and_its_scope(
    code: str, status: int, message: str, kind: BlockKind, scope: Scope | None
) -> None:
    refused = refused_launch(GceError(code, message, status=status), OFFER)
    assert isinstance(refused, Refusal)
    assert (refused.kind, refused.scope) == (kind, scope)
    assert (refused.scope or scope_of(kind, OFFER)).covers(OFFER), "true for what was asked"
    assert code in refused.message
    assert message.split(".", maxsplit=1)[0] in refused.message, "in the vendor's words"


def test_a_quota_is_told_with_its_name_and_number() -> None:
    message = "Quota 'NVIDIA_A100_GPUS' exceeded.  Limit: 16.0 in region us-central1."
    refused = refused_launch(GceError("QUOTA_EXCEEDED", message), OFFER)
    assert isinstance(refused, Refusal)
    assert (refused.quota, refused.number) == ("NVIDIA_A100_GPUS", 16.0)
    assert refused.message.startswith(
        "the quota of 16 of NVIDIA_A100_GPUS in us-central1 is used up: ask Google for more"
    )


def test_a_quota_may_be_told_by_details() -> None:
    quota = {"metricName": "compute.googleapis.com/gpus_all_regions", "limit": 4}
    details = [{"quotaInfo": {**quota, "limitName": "GPUS-ALL-REGIONS-per-project"}}]
    refused = refused_launch(GceError("QUOTA_EXCEEDED", "exceeded", details=details), OFFER)
    assert isinstance(refused, Refusal)
    assert (refused.quota, refused.number) == ("GPUS-ALL-REGIONS-per-project", 4.0)


def test_a_quota_of_all_regions_leaves_machines_without_gpus_for_sale() -> None:
    message = "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 8.0 globally."
    refused = refused_launch(GceError("QUOTA_EXCEEDED", message), OFFER)
    assert isinstance(refused, Refusal)
    assert refused.scope is not None
    cpu = Offer(key=KEY, slots=0, usd_per_hour=1.0, boot_s=1.0, family="N2_CPUS")
    assert not refused.scope.covers(cpu)


def test_a_request_id_that_is_known_with_other_parameters_is_spent() -> None:
    said = "Invalid value for field 'requestId': 'x'. The request ID was already used"
    assert isinstance(refused_launch(GceError("invalid", said, status=400), OFFER), TokenSpent)


def test_other_calls_are_refused_for_whom_we_are_or_how_often_we_ask() -> None:
    throttled = refused_call(GceError("rateLimitExceeded", "slow down", status=429))
    assert isinstance(throttled, Refusal)
    assert throttled.kind is BlockKind.THROTTLED
    expired = refused_call(GceError("authError", "Invalid Credentials", status=401))
    assert isinstance(expired, Refusal)
    assert expired.kind is BlockKind.AUTH
    assert "renew the master's credentials" in expired.message
    other = refused_call(GceError("backendError", "no", status=503))
    assert type(other) is ProviderError
