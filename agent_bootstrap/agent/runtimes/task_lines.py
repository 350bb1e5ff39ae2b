"""Lines of the agent in the log of a task, before its supervisor has the file."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Literal

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.supervisor.output import cut

Level = Literal["INFO", "WARNING", "ERROR"]
Say = Callable[..., None]
"""(text, level of the line, INFO if it is left out)"""

log = logging.getLogger(__name__)


def lines_of(place: ContainerDir) -> Say:
    def say(text: str, level: Level = "INFO") -> None:
        micros = time.time_ns() // 1000
        flat = " ".join(text.splitlines()).encode()
        record = b"%d o %b: %b\n" % (micros, level.encode(), cut(flat)[0])
        try:
            file = os.open(
                place.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(file, record)
            finally:
                os.close(file)
        except OSError as error:  # a line less; the pull goes on
            log.warning("%s: %s", place.output, error.strerror)

    return say
