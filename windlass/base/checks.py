"""What `windlass doctor` looks at. Extras bring checks of their own through the entry point group `windlass.checks`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CHECKS_GROUP = "windlass.checks"
"""Each entry point is a function without arguments that returns a list of Check."""


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the report."""

    name: str
    status: CheckStatus = CheckStatus.OK
    found: str
    advice: str = ""
    """What to do; for everything that is not OK."""
