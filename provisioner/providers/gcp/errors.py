"""What refusals of Compute Engine mean: code -> kind, what it is true for, and the way out. Pure.

Codes come as reasons of HTTP answers (`quotaExceeded`) and as codes inside operations (`QUOTA_EXCEEDED`); both are
compared without case and underscores. The kinds are those of docs/buying-machines.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from provisioner.providers.errors import Refusal, TokenSpent
from provisioner.providers.gcp.client import GceError
from provisioner.refusals import BlockKind
from provisioner.types import Offer, Scope
from windlass.base.errors import ProviderError

MAX_SAID = 400
_QUOTA = re.compile(r"[Qq]uota '([^']+)' exceeded\.\s*Limit:\s*([\d.]+)")

_SMALLER_MAY_FIT = re.compile(r"ADDRESSES|DISK|SSD|INSTANCES")
"""Quotas that are not counted by family."""


class _Rule(NamedTuple):
    codes: str
    """A pattern of the whole code, without underscores, lower case."""
    kind: BlockKind
    scope: Callable[[Offer], Scope | None]
    hint: str = ""
    text: str = ""
    """A pattern that the message must contain."""


def _usual(offer: Offer) -> None:
    """What is usual for the kind."""


def _site(offer: Offer) -> Scope:
    return Scope(provider=offer.key.provider)


def _type(offer: Offer) -> Scope:
    """Machines of one type are made alike: with one network, service account and base_config."""
    return Scope(provider=offer.key.provider, instance_type=offer.key.instance_type)


def _image(offer: Offer) -> Scope:
    return Scope(provider=offer.key.provider, image=offer.image)


def _reserved(offer: Offer) -> Scope | None:
    """Without a reservation in the offer it is none of ours that is used up."""
    return None if offer.key.reservation else Scope.of(offer.key)


def _placed(offer: Offer) -> Scope | None:
    return None if offer.key.placement else Scope.of(offer.key)


_RULES: Sequence[_Rule] = (
    _Rule(
        r"zoneresourcepoolexhausted(withdetails)?|resourcepoolexhausted|insufficientcapacity"
        r"|stockout|vmmincountnotreached",
        BlockKind.CAPACITY,
        _usual,
    ),
    # A spot machine that is taken back while it is being made.
    _Rule(r"unsupportedoperation", BlockKind.CAPACITY, _usual),
    _Rule(
        r"reservation(notfound|notready|capacityexceeded|incompatible).*|automaticreservations.*",
        BlockKind.RESERVATION,
        _reserved,
        "see reservations of the pool in master.yaml",
    ),
    _Rule(
        r"invalid|badrequest|notfound|resourcenotfound",
        BlockKind.RESERVATION,
        _reserved,
        "see reservations of the pool in master.yaml",
        text=r"(?i)/reservations/|reservation '",
    ),
    _Rule(r"quotaexceeded|limitexceeded|quotalimitexceeded", BlockKind.QUOTA, _usual),
    _Rule(
        r"ipspaceexhausted.*",
        BlockKind.NETWORK,
        _usual,
        "give the pool a larger subnetwork",
    ),
    _Rule(
        r".*(resourcepolicy|placement|collocat).*",
        BlockKind.PLACEMENT,
        _placed,
        "see placement_policy of the pool",
    ),
    _Rule(
        r"invalid|badrequest|conditionnotmet|notfound|resourcenotfound",
        BlockKind.PLACEMENT,
        _placed,
        "see placement_policy of the pool",
        text=r"(?i)placement polic|resourcePolicies",
    ),
    _Rule(
        r"(user)?ratelimitexceeded|resourceoperationrateexceeded|concurrentoperations.*|429"
        r"|resourceexhausted|operationquota.*",
        BlockKind.THROTTLED,
        _usual,
    ),
    _Rule(
        r"autherror|unauthenticated|required|401",
        BlockKind.AUTH,
        _usual,
        "renew the master's credentials for Google Cloud",
    ),
    _Rule(
        r"accessnotconfigured|servicedisabled",
        BlockKind.CONFIG,
        _site,
        "enable the API: gcloud services enable compute.googleapis.com",
    ),
    _Rule(
        r"vmexternalipaccesspolicyconstraint|conditionnotmet",
        BlockKind.CONFIG,
        _type,
        "a policy of the organisation forbids it: set network_interface.external_ip to false",
        text=r"(?i)external.?ip",
    ),
    _Rule(
        r"forbidden|permissions?.*|403|serviceaccountaccessdenied|insufficientpermissions",
        BlockKind.CONFIG,
        _site,
        "see what is missing with windlass master check --cloud",
    ),
    _Rule(
        r"invalid|badrequest|notfound|resourcenotfound|unsupported",
        BlockKind.UNSUPPORTED,
        _usual,
        text=r"(?i)machine type with name|machineTypes/|acceleratorTypes/|not compatible for creating",
    ),
    _Rule(
        r"invalid|badrequest|notfound|resourcenotfound|imagenotfound|404",
        BlockKind.CONFIG,
        _image,
        "correct boot_disk_source_image or boot_disk_size of the pool",
        text=r"(?i)/images/|disk size|sourceImage",
    ),
    _Rule(
        r"notfound|resourcenotfound|invalid|badrequest|404",
        BlockKind.CONFIG,
        _type,
        "correct network_interface of the pool",
        text=r"(?i)/(sub)?networks/|(sub)?network",
    ),
    _Rule(
        r"notfound|resourcenotfound|invalid|badrequest|404",
        BlockKind.CONFIG,
        _type,
        "correct service_account of the pool",
        text=r"(?i)service.?account",
    ),
    # What was being made was deleted meanwhile, by us or by others.
    _Rule(r"resourcenotfound", BlockKind.CAPACITY, _usual, text="deleted"),
    _Rule(
        r"invalid.*|badrequest|notfound|resourcenotfound|required|conditionnotmet|parseerror|400|404|412",
        BlockKind.CONFIG,
        _type,
        "correct the pool in master.yaml",
    ),
    _Rule(
        r"backenderror|internalerror|internal|resourcenotready|serviceunavailable|timeout|5\d\d",
        BlockKind.TRANSIENT,
        _usual,
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
    hint = f"; {rule.hint}" if rule.hint else ""
    return Refusal(rule.kind, f"{said}{hint}", scope=rule.scope(offer))


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
        return Refusal(rule.kind, f"{said_by(error)}{f'; {rule.hint}' if rule.hint else ''}")
    return ProviderError(said_by(error))


def said_by(error: GceError) -> str:
    """In one line."""
    text = " ".join(error.message.split())
    return f"{error.code}: {text[:MAX_SAID]}" if text else error.code


def _rule_of(error: GceError) -> _Rule | None:
    code = error.code.replace("_", "").lower()
    return next(
        (
            rule
            for rule in _RULES
            if re.fullmatch(rule.codes, code)
            and (not rule.text or re.search(rule.text, error.message))
        ),
        None,
    )


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
