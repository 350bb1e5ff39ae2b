"""How the process is told to stop, and what it tells the service manager."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress

import structlog

log = structlog.get_logger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """`with`: the first SIGTERM or SIGINT asks to stop; a second one ends the process at once, as SIGKILL would."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def __enter__(self) -> StopSignal:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._ask, number)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def is_set(self) -> bool:
        return self._asked.is_set()

    async def wait(self) -> None:
        await self._asked.wait()

    def _ask(self, number: signal.Signals) -> None:
        for one in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        log.info("stopping", signal=number.name)
        self._asked.set()


class ServiceManager:
    """systemd's notifications (`Type=notify`); does nothing elsewhere. Children do not inherit the socket's name."""

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")

    def ready(self) -> None:
        self._tell("READY=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(address)
            manager.sendall(state.encode())
