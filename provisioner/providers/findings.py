"""What a check of a cloud says: `windlass master check --cloud`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFinding:
    """One thing that was looked at."""

    what: str
    problems: tuple[str, ...] = ()
    """Each with its way out."""
