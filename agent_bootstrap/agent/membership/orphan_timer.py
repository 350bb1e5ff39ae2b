"""How long an agent has been without its master and without work: what nobody uses ends, before it costs more."""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import time
from datetime import timedelta
from pathlib import Path

from agent_bootstrap.supervisor.contact import FILE as CONTACT
from windlass.base.clock import Clock

LEAST_S = 60.0
"""So long each agent tries at least, however long those before it had no master."""
END_VARIABLE = "WINDLASS_END_MACHINE"
"""What ends the machine, if not `shutdown -h now`: as in its boot."""

log = logging.getLogger(__name__)


class OrphanTimer:
    def __init__(self, ttl: timedelta | None, clock: Clock, *, already_s: float = 0.0) -> None:
        """`already_s`: how long agents before this one were alone."""
        self._ttl_s = None if ttl is None else ttl.total_seconds()
        self._clock = clock
        self._since = clock.monotonic()
        self._already_s = already_s

    def not_now(self) -> None:
        """There is a master, or work."""
        self._since, self._already_s = self._clock.monotonic(), 0.0

    def is_over(self) -> bool:
        own_s = self._clock.monotonic() - self._since
        return self._ttl_s is not None and own_s > min(
            self._ttl_s, max(LEAST_S, self._ttl_s - self._already_s)
        )

    def is_over_with_those_before(self) -> bool:
        """For an agent that its master refuses: it does not wait, and the next one is refused, too."""
        own_s = self._clock.monotonic() - self._since
        return self._ttl_s is not None and own_s + self._already_s > self._ttl_s


def since_contact_s(work_dir: Path, clock: Clock) -> float:
    """How long ago an agent on this work_dir last heard its master, at most since this machine started.

    On a machine where none has yet, it counts from now on.
    """
    file = work_dir / CONTACT
    try:
        file.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        age = clock.now().timestamp() - file.stat().st_mtime
        return max(0.0, min(age, time.clock_gettime(time.CLOCK_BOOTTIME)))
    except OSError as error:
        log.warning("when the master was last heard cannot be read: %s", error)
    return 0.0


def end_machine() -> bool:
    """Shut this machine down; whether that was begun."""
    command = shlex.split(os.environ.get(END_VARIABLE, "shutdown -h now"))
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        log.error("this machine cannot be shut down: %s: %s", command[0], error)
        return False
    if done.returncode:
        log.error("this machine cannot be shut down: %s", " ".join(done.stderr.split()))
    return done.returncode == 0
