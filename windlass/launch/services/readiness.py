"""When a service is ready: a line of its output says so, and the master tells its users."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from typing import IO

from windlass.base.errors import WindlassError
from windlass.core._info import ClusterInfo
from windlass.core._session import TaskSession
from windlass.launch.services.task_end import follow_end, looks


def until_ready(
    pattern: str,
    session: TaskSession,
    info: ClusterInfo,
    *,
    on_end_known: Callable[[str], object] = lambda _: None,
    **told: str,
) -> Callable[[IO[bytes]], threading.Thread]:
    """Copies what a service prints to our stderr; the master is told at the first line that matches.

    `told`: what it is told beside that. `on_end_known`: is given a sentence for its users, if its machine has an end,
    and another if that moves.
    """
    line_of_ready = re.compile(pattern)

    def ready(*, retry: bool = False) -> str | None:
        """When the time of its machine is over, as far as the master knows."""
        path = f"/api/v1/allocations/{info.allocation_id}/ready"
        ends_at = session.request("POST", path, query=told, retry=retry).get("endsAt")
        return None if ends_at is None else str(ends_at)

    def tell_users(said: str) -> None:
        print(f"windlass launch: {said}", flush=True)
        on_end_known(said)

    def tell() -> None:
        ends_at = None
        try:
            ends_at = ready(retry=True)
        except WindlassError as problem:
            print(
                f"windlass launch: cannot tell the master that it is ready: {problem}", flush=True
            )
        follow_end(ends_at, ready, tell_users, looks())

    def copy(output: IO[bytes]) -> None:
        waiting = True
        for line in output:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            if waiting and line_of_ready.search(line.decode(errors="replace")):
                waiting = False
                threading.Thread(target=tell, name="ready", daemon=True).start()

    def watch(output: IO[bytes]) -> threading.Thread:
        thread = threading.Thread(target=copy, args=[output], name="output", daemon=True)
        thread.start()
        return thread

    return watch
