"""Starts a container that an engine has made, and stays with it: the supervisor's child in place of the task itself.

usage: python -I -S engine_watch.py        (standard library only)

File descriptor 4 is the specification: `socket` of the engine, name of the `container`, `memory_bytes` it may use.
Signals are passed on to the container's first process; KILL_SIGNAL kills it. What happens is told on file descriptor
3: {"failure": ..., "message": ...} if it cannot be started, else {"exit_code": int, "message": str} once it has ended.
An engine that does not answer for a while (it is being updated) is asked again.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from types import FrameType
from typing import Any

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from agent_bootstrap.supervisor.cgroup import out_of_memory
from agent_bootstrap.supervisor.protocol import KILL_SIGNAL, RELAYED, SPEC_FD, TOLD_FD

CALL_LIMIT_S = 60.0
AGAIN_S = 0.5
START_TRIES = 3
POLL = "50ms"
"""How often Podman looks whether a container has ended. Docker knows."""
USERS_FAULTS = (
    ("no such file or directory", "the image has no /bin/sh, which every task is started with"),
    ("executable file not found", "the image has no /bin/sh, which every task is started with"),
)


class EngineConnection(http.client.HTTPConnection):
    def __init__(self, path: str, limit_s: float | None) -> None:
        super().__init__("localhost")
        self._path, self._limit_s = path, limit_s

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._limit_s)
        self.sock.connect(self._path)


class EngineContainer:
    """One container of the engine, by name."""

    def __init__(self, socket_path: str, name: str) -> None:
        self._socket, self._path = socket_path, f"/containers/{name}"

    def call(
        self, method: str, what: str, *, limit_s: float | None = CALL_LIMIT_S
    ) -> tuple[int, Any]:
        """Status and reply. Raises OSError, http.client.HTTPException."""
        connection = EngineConnection(self._socket, limit_s)
        try:
            connection.request(method, self._path + what)
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        try:
            return reply.status, json.loads(text)
        except ValueError:
            return reply.status, {}

    def signal(self, signum: int) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.call("POST", f"/kill?signal={int(signum)}")


class Watch:
    def __init__(self, spec: dict[str, Any]) -> None:
        self._container = EngineContainer(spec["socket"], spec["container"])
        self._memory = int(spec["memory_bytes"])
        self._kill = False

    def run(self) -> dict[str, Any]:
        """What there is to tell at the end."""
        for signum in (*RELAYED, KILL_SIGNAL):
            signal.signal(signum, self._on_signal)
        if problem := self._start():
            return problem
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if (ended := self._wait()) is not None:
                    return ended
            time.sleep(AGAIN_S)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if signum == KILL_SIGNAL:
            self._kill = True
            signum = signal.SIGKILL
        self._container.signal(signum)

    def _start(self) -> dict[str, Any] | None:
        """None: it runs, or has. Else why it could not be started."""
        said = ""
        for _ in range(START_TRIES):
            if self._kill:
                return {"exit_code": 137}
            try:
                status, reply = self._container.call("POST", "/start")
            except (OSError, http.client.HTTPException) as error:
                said = f"the container engine does not answer: {error}"
                time.sleep(AGAIN_S)
                continue
            if status < 400:
                return None
            return refusal(str(reply.get("message") or reply.get("cause") or f"HTTP {status}"))
        return {"failure": "aborted", "message": said}

    def _wait(self) -> dict[str, Any] | None:
        """None: ask again."""
        if self._kill:
            self._container.signal(signal.SIGKILL)
        self._container.call("POST", f"/wait?interval={POLL}", limit_s=None)
        status, found = self._container.call("GET", "/json")
        if status == 404:
            return {"exit_code": 137, "message": "the container was removed by somebody else"}
        state = found.get("State") or {}
        if status >= 400 or state.get("Running") or state.get("Status") in ("running", "created"):
            return None
        message = out_of_memory(self._memory) if state.get("OOMKilled") else ""
        return {"exit_code": int(state.get("ExitCode") or 0), "message": message}


def refusal(said: str) -> dict[str, Any]:
    """The engine's own words, with ours in front where it is known what they mean."""
    for pattern, meaning in USERS_FAULTS:
        if pattern in said.lower() and "/bin/sh" in said:
            said = f"{meaning} ({said})"
            break
    return {"failure": "task_error", "message": f"cannot start the container: {said}"}


def main() -> int:
    with open(SPEC_FD) as file:
        spec = json.load(file)
    ended = Watch(spec).run()
    os.write(TOLD_FD, json.dumps(ended).encode() + b"\n")
    return 0


if __name__ == "__main__":
    os._exit(main())
