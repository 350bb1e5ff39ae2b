"""The file with a task's output, which never takes more of the disk than it may. Standard library only.

What the master has stored is freed: a hole in the file, so that offsets stay what they are. When what it has not stored
reaches the limit, or the disk is full, the newest lines wait in memory; what is dropped between the file and these is
counted, and noted in its place once there is room again, or at the end.
"""

from __future__ import annotations

import os
import time
from collections import deque

from agent_bootstrap.supervisor.kernel import punch_hole

WAITING_BYTES = 1 << 20
"""The newest output, kept in memory while the file is full: it holds the error that ended the task."""
LOOK_EVERY_BYTES = 16 << 20
"""How much is written before what the master has is freed."""
BLOCK_BYTES = 4096
AGAIN_S = 1.0
"""How soon a full file is tried again."""


class OutputFile:
    """Appends whole frames. `limit_bytes`: on the disk; `shipped`: a file with the offset up to which the master is."""

    def __init__(self, path: str, *, limit_bytes: int | None = None, shipped: str = "") -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._limit = None if limit_bytes is None else max(0, limit_bytes - 2 * WAITING_BYTES)
        self._shipped = shipped
        self._size = self._looked_at = os.fstat(self._fd).st_size
        self._freed = 0
        self._can_free = True
        self._is_full = False
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_torn = False
        """The file ends within a line, which the first that waits goes on with."""
        self._lost_lines = self._lost_bytes = 0
        self._why = ""

    @property
    def pause_s(self) -> float | None:
        """Until `flush` should be called again. None: nothing waits."""
        return AGAIN_S if self._waiting else None

    def write(self, frames: bytes) -> None:
        self._waiting.append(frames)
        self._waiting_bytes += len(frames)
        self.flush()
        self._drop_oldest()

    def flush(self, *, last: bool = False) -> None:
        """Write what waits, as far as there is room. `last`: that is all, and the limit has kept room for it."""
        while self._waiting and (last or self._has_room(len(self._waiting[0]))):
            frames = self._note() + self._waiting[0]
            written = self._append(frames)
            if not written:
                return
            rest = frames[written:]
            self._lost_lines = self._lost_bytes = 0
            self._is_torn = bool(rest)
            self._waiting_bytes += len(rest) - len(self._waiting[0])
            if rest:
                self._waiting[0] = rest
                return
            self._waiting.popleft()

    def _append(self, frames: bytes) -> int:
        """How many bytes the disk took."""
        view = memoryview(frames)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._why = f"they could not be written to the disk ({error.strerror})"
        written = len(frames) - len(view)
        self._size += written
        return written

    def _drop_oldest(self) -> None:
        while (excess := self._waiting_bytes - WAITING_BYTES) > 0:
            oldest = self._waiting.popleft()
            dropped = oldest[: oldest.index(b"\n", min(excess, len(oldest)) - 1) + 1]
            if rest := oldest[len(dropped) :]:
                self._waiting.appendleft(rest)
            self._waiting_bytes -= len(dropped)
            self._lost_lines += dropped.count(b"\n")
            self._lost_bytes += len(dropped)

    def _note(self) -> bytes:
        """Of what was dropped before the first that waits; empty if that is nothing."""
        if not self._lost_lines:
            return b""
        lost = f"{self._lost_lines:,} lines of output ({self._lost_bytes / 2**20:,.1f} MiB)"
        start = b"\n" if self._is_torn else b""
        note = f"WARNING: {lost} are missing here: {self._why}"
        return start + b"%d e %b\n" % (time.time_ns() // 1000, note.encode())

    def _has_room(self, wanted: int) -> bool:
        """Below half of the limit again, once it was reached: else there would be a gap after every few lines."""
        if self._limit is None:
            return True
        if self._is_full or self._size - self._looked_at >= LOOK_EVERY_BYTES:
            self._free_shipped()
        held = self._size - self._freed
        full = held > self._limit // 2 if self._is_full else held + wanted > self._limit
        if full and not self._is_full:
            whose = (
                "that the master has not taken" if self._can_free else "of one task on this disk"
            )
            self._why = (
                f"the agent keeps {held / 2**20:,.0f} MiB {whose}, and no more (task_log_gib)"
            )
        self._is_full = full
        return not full

    def _free_shipped(self) -> None:
        self._looked_at = self._size
        shipped = min(_number_in(self._shipped), self._size)
        if not self._can_free or shipped <= self._freed:
            return
        start = self._freed - self._freed % BLOCK_BYTES
        try:
            punch_hole(self._fd, start, shipped - start)
        except OSError:  # not on this file system: then the limit holds for all of the output
            self._can_free = False
        else:
            self._freed = shipped


def _number_in(path: str) -> int:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0
