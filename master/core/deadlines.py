"""When an agent goes, and why: said where it becomes known. What follows depends on the cause alone. Pure.

| cause      | until then              | what runs there leaves  | and goes on                 | its loss      |
| JOB_LIMIT  | it is given what fits   | its lead before the end | in a job of its own         | time limit    |
| LIFETIME   | it is given what fits   | its lead before the end | elsewhere: demand soon      | the machine's |
| CUT_SHORT  | it is given what fits   | all of `leave_s` before | elsewhere: demand soon      | the machine's |
| TAKEN_BACK | it is given nothing     | now                     | elsewhere: demand now       | the machine's |
| LEAVES     | it is given nothing     | now                     | elsewhere: demand now       | the machine's |
| EMPTIED    | it is given nothing     | now                     | where the planner wants it  | the machine's |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class Cause(StrEnum):
    """Of the end of an agent."""

    JOB_LIMIT = "job limit"
    """The time of the batch job that was made for what it runs."""
    LIFETIME = "lifetime"
    """The time of its machine that was known from the start: the walltime of a pilot, a reservation."""
    CUT_SHORT = "cut short"
    """One of these comes sooner than was known: its site preempts it."""
    TAKEN_BACK = "taken back"
    """By its provider: a spot interruption, maintenance."""
    LEAVES = "leaves"
    """Its operator says so."""
    EMPTIED = "emptied"
    """The planner moves its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """One agent goes."""

    at: float
    cause: Cause
    reason: str = ""
    waits: bool = False
    """It goes when its tasks have left, each within its usual time. `at` is then when this was said."""
    its_own: bool = False
    """The agent said so, and may take it back."""

    def is_before(self, other: Deadline) -> bool:
        """A time at which everything ends comes before none."""
        return (self.waits, self.at) < (other.waits, other.at)

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    @property
    def when(self) -> str:
        """As in "the agent goes ..."."""
        return "now" if self.waits else f"at {self.moment:%Y-%m-%d %H:%M:%S} UTC"

    @property
    def when_iso(self) -> str:
        """The same, for programs."""
        return "now" if self.waits else f"at {self.moment.isoformat(timespec='seconds')}"
