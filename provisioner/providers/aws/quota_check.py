"""Whether quotas of vCPUs hold what pools may buy, a line for each quota: for `windlass master check --cloud`. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from provisioner.providers.aws.names import quota_code, quota_family


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolQuota:
    """What one pool may have of one type at most."""

    pool: str
    instance_type: str
    most: int
    cpus: int
    """Of one machine; 0: not known."""
    is_spot: bool = False


def by_quota(needs: Iterable[PoolQuota]) -> Mapping[tuple[str, str], Sequence[PoolQuota]]:
    """(code, name) of each quota -> what counts against it."""
    found: dict[tuple[str, str], list[PoolQuota]] = defaultdict(list)
    for need in needs:
        family = quota_family(need.instance_type)
        name = (
            f"All {family} Spot Instance Requests"
            if need.is_spot
            else f"Running On-Demand {family} instances"
        )
        found[quota_code(family, spot=need.is_spot), name].append(need)
    return found


def fits(limit: float, needs: Sequence[PoolQuota]) -> str:
    """The limit, and how many of each type it would hold if nothing else ran."""
    each = {need.instance_type: int(limit // need.cpus) for need in needs if need.cpus}
    enough = " or ".join(f"{count} x {name}" for name, count in each.items())
    return f"{limit:g} vCPUs" + (f", enough for {enough}" if enough else "")


def too_small(limit: float, needs: Sequence[PoolQuota]) -> str:
    """Why not all of it fits; empty: it does. Types of one pool share its maximum, so the largest of them counts."""
    largest: dict[str, PoolQuota] = {}
    for need in needs:
        known = largest.get(need.pool)
        if known is None or need.most * need.cpus > known.most * known.cpus:
            largest[need.pool] = need
    wanted = sum(need.most * need.cpus for need in largest.values())
    if limit >= wanted:
        return ""
    named = " and ".join(
        f"{need.most} x {need.instance_type} of pool {need.pool}" for need in largest.values()
    )
    verb = "need" if len(largest) > 1 or next(iter(largest.values())).most > 1 else "needs"
    return (
        f"{named} {verb} {wanted} vCPUs: ask AWS for more in Service Quotas, or lower max_instances"
    )
