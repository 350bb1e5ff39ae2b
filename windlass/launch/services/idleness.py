"""Whether anybody uses a notebook, by what its server says of itself, and how often that is reported. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

REPORT_EVERY_S = 30.0
REPORTS_WITHIN_TIMEOUT = 4
"""So that one of a busy notebook may be late, or lost."""


class Usage(NamedTuple):
    """As Jupyter's API lists them."""

    kernels: Sequence[Mapping[str, Any]] = ()
    terminals: Sequence[Mapping[str, Any]] = ()
    sessions: Sequence[Mapping[str, Any]] = ()

    def without(self, path: str) -> Usage:
        """As if no page showed this notebook: whatever shows one starts a kernel for it."""
        shown = [session for session in self.sessions if session.get("path") == path]
        kernels = [(session.get("kernel") or {}).get("id") for session in shown]
        return self._replace(
            kernels=[kernel for kernel in self.kernels if kernel.get("id") not in kernels],
            sessions=[session for session in self.sessions if session not in shown],
        )


def is_idle(kind: str, now: Usage, before: Usage | None) -> bool:
    """`kind`: `notebook_idle_type` of the configuration. `before`: what was seen at the last look."""
    match kind:
        case "kernel_connections":
            return all(not kernel.get("connections") for kernel in now.kernels)
        case "activity":
            busy = any(kernel.get("execution_state") == "busy" for kernel in now.kernels)
            return not busy and before is not None and _activity(now) == _activity(before)
        case _:
            return not any(now)


def report_every_s(idle_timeout: timedelta) -> float:
    """Zero: the notebook is never ended for that."""
    often = idle_timeout.total_seconds() / REPORTS_WITHIN_TIMEOUT
    return min(REPORT_EVERY_S, often or REPORT_EVERY_S)


def _activity(usage: Usage) -> str:
    """The newest time: they are all written alike, so that they can be compared as texts."""
    moments = (str(one.get("last_activity", "")) for one in (*usage.kernels, *usage.terminals))
    return max(moments, default="")
