"""Whether anybody uses a notebook, by what its server says of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Usage(NamedTuple):
    """As Jupyter's API lists them."""

    kernels: Sequence[Mapping[str, Any]] = ()
    terminals: Sequence[Mapping[str, Any]] = ()
    sessions: Sequence[Mapping[str, Any]] = ()


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


def _activity(usage: Usage) -> str:
    """The newest time: they are all written alike, so that they can be compared as texts."""
    moments = (str(one.get("last_activity", "")) for one in (*usage.kernels, *usage.terminals))
    return max(moments, default="")
