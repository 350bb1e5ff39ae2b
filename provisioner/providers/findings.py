"""What a check of a cloud says: `windlass master check --cloud`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFinding:
    """One thing that was looked at."""

    what: str
    problems: tuple[str, ...] = ()
    """Each with its way out."""


OPTIONAL = {
    "bake": "images of machines (det fleet bake)",
    "price_refresh": "today's prices (prices.refresh)",
}
"""By the feature of their permissions: not every operator wants these."""


def optional(cloud: str, feature: str, problems: Sequence[str]) -> CloudFinding:
    """Without it, it is no problem, but said."""
    what = f"{cloud}: {OPTIONAL[feature]}"
    return CloudFinding(what=f"{what}: not allowed, {problems[0]}" if problems else what)
