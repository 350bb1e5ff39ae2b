"""What active experiments and runs do right now: known in memory only, so that a search is given it.

Stored they are all ACTIVE, and shown as QUEUED, PULLING, STARTING or RUNNING.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ACTIVE, QUEUED, RUNNING = "ACTIVE", "QUEUED", "RUNNING"
LIVE = (QUEUED, "PULLING", "STARTING", RUNNING)


@dataclass(frozen=True, slots=True)
class LiveStates:
    """Ids by each state of `LIVE` but QUEUED, which is that of all other active ones."""

    ids: Mapping[str, Sequence[int]] = field(default_factory=dict)
