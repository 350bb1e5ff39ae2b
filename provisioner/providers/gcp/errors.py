"""What refusals of Compute Engine mean: code -> kind, what it is true for, and the way out. Pure.

Codes come as reasons of HTTP answers (`quotaExceeded`) and as codes inside operations (`QUOTA_EXCEEDED`); both are
compared without case and underscores. The kinds are those of docs/buying-machines.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.errors import Refusal, TokenSpent
from provisioner.providers.gcp.client import GceError
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
from provisioner.types import Offer, Scope
from windlass.base.errors import ProviderError

_QUOTA = re.compile(r"[Qq]uota '([^']+)' exceeded\.\s*Limit:\s*([\d.]+)")

_SMALLER_MAY_FIT = re.compile(r"ADDRESSES|DISK|SSD|INSTANCES")
"""Quotas that are not counted by family."""


def _placed(offer: Offer) -> Scope | None:
    return None if offer.key.placement else Scope.of(offer.key)


_RULES: Sequence[RefusalRule] = (
    RefusalRule(
        r"zoneresourcepoolexhausted(withdetails)?|resourcepoolexhausted|insufficientcapacity"
        r"|stockout|vmmincountnotreached",
        BlockKind.CAPACITY,
        usual,
    ),
    # A spot machine that is taken back while it is being made.
    RefusalRule(r"unsupportedoperation", BlockKind.CAPACITY, usual),
    RefusalRule(
        r"reservation(notfound|notready|capacityexceeded|incompatible).*|automaticreservations.*",
        BlockKind.RESERVATION,
        without_reservation,
        "see reservations of the pool in master.yaml",
    ),
    RefusalRule(
        r"invalid|badrequest|notfound|resourcenotfound",
        BlockKind.RESERVATION,
        without_reservation,
        "see reservations of the pool in master.yaml",
        text=r"(?i)/reservations/|reservation '",
    ),
    RefusalRule(r"quotaexceeded|limitexceeded|quotalimitexceeded", BlockKind.QUOTA, usual),
    RefusalRule(
        r"ipspaceexhausted.*",
        BlockKind.NETWORK,
        usual,
        "give the pool a larger subnetwork",
    ),
    RefusalRule(
        r".*(resourcepolicy|placement|collocat).*",
        BlockKind.PLACEMENT,
        _placed,
        "see placement_policy of the pool",
    ),
    RefusalRule(
        r"invalid|badrequest|conditionnotmet|notfound|resourcenotfound",
        BlockKind.PLACEMENT,
        _placed,
        "see placement_policy of the pool",
        text=r"(?i)placement polic|resourcePolicies",
    ),
    RefusalRule(
        r"(user)?ratelimitexceeded|resourceoperationrateexceeded|concurrentoperations.*|429"
        r"|resourceexhausted|operationquota.*",
        BlockKind.THROTTLED,
        usual,
    ),
    RefusalRule(
        r"autherror|unauthenticated|required|401",
        BlockKind.AUTH,
        usual,
        "renew the master's credentials for Google Cloud",
    ),
    RefusalRule(
        r"accessnotconfigured|servicedisabled",
        BlockKind.CONFIG,
        whole_account,
        "enable the API: gcloud services enable compute.googleapis.com",
    ),
    RefusalRule(
        r"vmexternalipaccesspolicyconstraint|conditionnotmet",
        BlockKind.CONFIG,
        same_type,
        "a policy of the organisation forbids it: set network_interface.external_ip to false",
        text=r"(?i)external.?ip",
    ),
    RefusalRule(
        r"forbidden|permissions?.*|403|serviceaccountaccessdenied|insufficientpermissions",
        BlockKind.CONFIG,
        whole_account,
        "see what is missing with windlass master check --cloud",
    ),
    RefusalRule(
        r"invalid|badrequest|notfound|resourcenotfound|unsupported",
        BlockKind.UNSUPPORTED,
        usual,
        text=r"(?i)machine type with name|machineTypes/|acceleratorTypes/|not compatible for creating",
    ),
    RefusalRule(
        r"invalid|badrequest|notfound|resourcenotfound|imagenotfound|404",
        BlockKind.CONFIG,
        same_image,
        "correct boot_disk_source_image or boot_disk_size of the pool",
        text=r"(?i)/images/|disk size|sourceImage",
    ),
    RefusalRule(
        r"notfound|resourcenotfound|invalid|badrequest|404",
        BlockKind.CONFIG,
        same_type,
        "correct network_interface of the pool",
        text=r"(?i)/(sub)?networks/|(sub)?network",
    ),
    RefusalRule(
        r"notfound|resourcenotfound|invalid|badrequest|404",
        BlockKind.CONFIG,
        same_type,
        "correct service_account of the pool",
        text=r"(?i)service.?account",
    ),
    # What was being made was deleted meanwhile, by us or by others.
    RefusalRule(r"resourcenotfound", BlockKind.CAPACITY, usual, text="deleted"),
    RefusalRule(
        r"invalid.*|badrequest|notfound|resourcenotfound|required|conditionnotmet|parseerror|400|404|412",
        BlockKind.CONFIG,
        same_type,
        "correct the pool in master.yaml",
    ),
    RefusalRule(
        r"backenderror|internalerror|internal|resourcenotready|serviceunavailable|timeout|5\d\d",
        BlockKind.TRANSIENT,
        usual,
    ),
)


def refused_launch(error: GceError, offer: Offer) -> ProviderError:
    """What to raise for a launch that was answered so, at once or by its operation."""
    said = said_by(error)
    if "requestid" in error.message.replace(" ", "").lower():
        return TokenSpent(said)
    rule = _rule_of(error)
    if rule is None:
        kind = BlockKind.TRANSIENT if error.status >= 500 else BlockKind.UNKNOWN
        return Refusal(kind, said)
    if rule.kind is BlockKind.QUOTA:
        return _quota(error, offer)
    return Refusal(rule.kind, rule.applied_to(said), scope=rule.scope(offer))


def refused_stop(error: GceError) -> ProviderError:
    """What to raise for a stop that was answered so; what is no refusal is asked again."""
    rule = _rule_of(error)
    if (rule is None and error.status >= 500) or (rule and rule.kind is BlockKind.TRANSIENT):
        return Refusal(BlockKind.TRANSIENT, said_by(error))
    return refused_call(error)


def refused_call(error: GceError) -> ProviderError:
    """What to raise for any other call that was answered so."""
    rule = _rule_of(error)
    if rule is not None and rule.kind in (BlockKind.THROTTLED, BlockKind.AUTH):
        return Refusal(rule.kind, rule.applied_to(said_by(error)))
    return ProviderError(said_by(error))


def said_by(error: GceError) -> str:
    """In one line."""
    return in_one_line(error.code, error.message)


def _rule_of(error: GceError) -> RefusalRule | None:
    """Their codes are without underscores, in lower case."""
    return first_rule(_RULES, error.code.replace("_", "").lower(), error.message)


def _quota(error: GceError, offer: Offer) -> Refusal:
    """Which quota, and how much it is: as the details say, else as the sentence does."""
    name, number = _quota_of(error)
    key = offer.key
    limit = f" of {number:g}" if number is not None else ""
    everywhere = "ALL_REGIONS" in name
    where = "the project" if everywhere else key.region
    scope: Scope | None = None
    if everywhere:
        # Of all GPUs, whichever market they are bought on; machines without GPUs go on.
        scope = Scope(provider=key.provider, family=offer.family or None)
    elif _SMALLER_MAY_FIT.search(name):
        scope = Scope.of(key)
    return Refusal(
        BlockKind.QUOTA,
        f"the quota{limit} of {name or 'this project'} in {where} is used up: ask Google for more in IAM > "
        f"Quotas ({said_by(error)})",
        scope=scope,
        quota=name,
        number=number,
    )


def _quota_of(error: GceError) -> tuple[str, float | None]:
    for detail in error.details:
        info = detail.get("quotaInfo") or detail
        if info.get("metricName") or info.get("limitName"):
            found = _QUOTA.search(error.message)
            name = found[1] if found else str(info.get("limitName") or info["metricName"])
            return name, float(info["limit"]) if info.get("limit") is not None else None
    found = _QUOTA.search(error.message)
    return (found[1], float(found[2])) if found else ("", None)
