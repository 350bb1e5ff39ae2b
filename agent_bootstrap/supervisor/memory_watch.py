"""A task's memory limit where the agent has no cgroup for it: looked at, and the task ended. Standard library only.

Counted is what the processes of the task have touched: anonymous and shared memory and swap; what several of them
share (forked workers) counts once. Not counted: files that are mapped, what is only reserved (as CUDA does), files in
/dev/shm or /tmp that no process maps. Resource limits would do worse: RLIMIT_AS counts reservations, RLIMIT_DATA
untouched memory, both for each process alone, and neither leaves a trace of why the program failed.
"""

from __future__ import annotations

import contextlib
import time

from agent_bootstrap.supervisor.process_tree import descendants

FASTEST_BYTES_S = 8 * 2**30
"""How fast a task may be expected to fill memory: the next look comes before it can have reached its limit."""
SHORTEST_S, LONGEST_S = 0.1, 1.0


class MemoryWatch:
    """Of everything below process `top`. 0 bytes: no limit."""

    def __init__(self, top: int, limit_bytes: int) -> None:
        self._top = top
        self._limit = limit_bytes
        self._next_look = time.monotonic() + self._until_reached(0)

    @property
    def pause_s(self) -> float | None:
        """Until the next look. None: there is none."""
        return max(0.0, self._next_look - time.monotonic()) if self._limit else None

    def is_over(self) -> bool:
        """Looks if it is time to."""
        if not self._limit or time.monotonic() < self._next_look:
            return False
        held = used_bytes(self._top, self._limit)
        self._next_look = time.monotonic() + self._until_reached(held)
        return held > self._limit

    def _until_reached(self, held: int) -> float:
        return min(LONGEST_S, max(SHORTEST_S, (self._limit - held) / FASTEST_BYTES_S))


def used_bytes(top: int, enough: int) -> int:
    """Of everything below `top`. Up to `enough`, what several processes share may count for each: that is quicker."""
    touched = {pid: _touched(pid) for pid in descendants(top)}
    most = sum(touched.values())
    if most <= enough:
        return most
    return sum(min(most, _share(pid, most)) for pid, most in touched.items())


def _touched(pid: int) -> int:
    found = _sizes(f"/proc/{pid}/status")
    return sum(found.get(name, 0) for name in ("RssAnon", "RssShmem", "VmSwap"))


def _share(pid: int, otherwise: int) -> int:
    """The same, of shared pages its part. `otherwise`: it may not be looked at, or has ended."""
    found = _sizes(f"/proc/{pid}/smaps_rollup")
    if "Pss" not in found:
        return otherwise
    # Linux tells files apart since 5.4.
    held = found["Pss"] - found.get("Pss_File", 0)
    return held + found.get("SwapPss", 0)


def _sizes(path: str) -> dict[str, int]:
    """The lines as `Name: 12 kB`, in bytes. Empty if it cannot be read."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            if line.endswith(" kB\n"):
                name, _, size = line.partition(":")
                found[name] = 1024 * int(size.split()[0])
    return found
