"""Keeps the relay running by which agents without a network path reach the master, connected to its port.

A relay runs on the login node for as long as this master; when it ends or the connection to the login node is lost,
another one is started. Nothing reaches anything but the port of the master.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from agent_bootstrap.channels.mux import Dial, Mux
from provisioner.batch.base import NoAnswer
from provisioner.batch.pipes import Pipes

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0
STEADY_S = 60.0

log = logging.getLogger(__name__)


class RelayKeeper:
    """`run` until cancelled."""

    def __init__(
        self, pipes: Pipes, *, python: str, root: str, dial: Dial, arguments: Sequence[str] = ()
    ) -> None:
        """`root`: the folder of the jobs, on the login node. `dial`: the master's port."""
        self._pipes = pipes
        self.words = (python, "-P", "-m", "agent_bootstrap.relay", "--root", root, *arguments)
        self._dial = dial
        self._complaint = ""

    async def run(self) -> None:
        pause_s = FIRST_RETRY_S
        while True:
            started = asyncio.get_running_loop().time()
            why = await self._serve()
            if why != self._complaint:
                log.warning("the relay on the login node ended, and is started again: %s", why)
            self._complaint = why
            lasted_s = asyncio.get_running_loop().time() - started
            pause_s = FIRST_RETRY_S if lasted_s > STEADY_S else min(2 * pause_s, LAST_RETRY_S)
            await asyncio.sleep(pause_s)

    async def _serve(self) -> str:
        try:
            pipe = await self._pipes.start(self.words)
        except NoAnswer as error:
            return error.message
        said = ""
        try:
            why = await Mux(pipe, dial=self._dial).run()
        finally:
            said = await asyncio.shield(pipe.ended())
        return said or why
