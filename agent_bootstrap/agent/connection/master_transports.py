"""Which way this agent goes to its master: those of `channels` one after the other, and why others did not lead there.

Where it is not the network itself, agent and tasks connect to a port of the agent's on 127.0.0.1. TLS is from there to
the master: nobody on the way reads anything, and whoever listens at that port when the agent does not is refused.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from agent_bootstrap.agent.connection.websocket import connect, connect_streams
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.bounds import MAX_ERROR_CHARS, one_line
from agent_bootstrap.channels.gate import Gate
from agent_bootstrap.channels.requested_transport import RequestedTransport
from agent_bootstrap.channels.streams import LOOPBACK, Direct, Stream, Transport
from agent_bootstrap.channels.through_relay import ThroughRelay
from agent_bootstrap.channels.through_ssh import ThroughSsh
from agent_bootstrap.protocol import AgentChannel, ChannelClosed

SUBMITTED_FROM = ("SLURM_SUBMIT_HOST", "PBS_O_HOST")
"""The login node, in the environment of a batch job."""

log = logging.getLogger(__name__)

Dial = Callable[[AgentOptions, str], Awaitable[AgentChannel]]


class MasterTransports:
    """`connect` is what the agent dials with. The way that was good last is tried first, then all in their order."""

    def __init__(
        self, options: AgentOptions, transports: Mapping[str, Transport], *, dial: Dial = connect
    ) -> None:
        self._options = options
        self._transports = transports
        self._dial = dial
        self._gate = Gate(self._onward, options.work_dir)
        self._current = next(iter(transports))
        self._failed: dict[str, str] = {}

    def reached(self) -> AgentOptions:
        """The options, with the master where this agent and its tasks find it now."""
        return self._by(self._current)

    def notes(self) -> tuple[str, ...]:
        """What an operator should know."""
        if self._current == "direct":
            return ()
        failed = _listed(self._failed)
        return (f"reaches the master by {self._current}" + (f" ({failed})" if failed else ""),)

    async def connect(self, credential: str) -> AgentChannel:
        """Raises ChannelClosed if no way leads to the master, PermissionDenied if it refuses us."""
        if self._gate.was_open:  # tasks of an agent before us know that port
            await self._open_gate()
        failed: dict[str, str] = {}
        for name in self._in_order():
            before, self._current = self._current, name
            try:
                channel = await self._try(name, credential)
            except ChannelClosed as error:
                self._current = before
                failed[name] = str(error)
                continue
            except BaseException:
                self._current = before
                raise
            if name != before or failed:
                why = f" ({_listed(failed)})" if failed else ""
                log.info("the master is reached by %s%s", name, why)
            self._failed = failed
            return channel
        only = failed.get("direct", "") if len(failed) == 1 else ""
        raise ChannelClosed(only or _listed(failed))

    async def connect_streams(self, credential: str) -> Stream:
        """The way that is good now. Raises as `connect`."""
        return await connect_streams(self.reached(), credential)

    async def close(self) -> None:
        await self._gate.close()
        for way in self._transports.values():
            await way.close()

    async def _try(self, name: str, credential: str) -> AgentChannel:
        if name != "direct":
            await self._open_gate()
            try:
                # For its words: those who connect to the gate see a connection that ends.
                (await self._transports[name].open()).close()
            except OSError as error:
                raise ChannelClosed(str(error)) from None
        return await self._dial(self._by(name), credential)

    async def _onward(self) -> Stream:
        return await self._transports[self._current].open()

    async def _open_gate(self) -> None:
        try:
            await self._gate.open()
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def _in_order(self) -> Iterator[str]:
        yield self._current
        yield from [name for name in self._transports if name != self._current]

    def _by(self, name: str) -> AgentOptions:
        return self._options if name == "direct" else through_gate(self._options, self._gate.port)


def _listed(failed: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {one_line(why)[:MAX_ERROR_CHARS]}" for name, why in failed.items())


def through_gate(options: AgentOptions, port: int) -> AgentOptions:
    """With the master at that port of this machine, whose certificate still is for its own name."""
    tls = options.security.tls
    host = urlsplit(options.url).hostname or ""
    named = tls.model_copy(update={"master_cert_name": tls.master_cert_name or host})
    changes: dict[str, object] = {
        "master_url": f"{urlsplit(options.url).scheme}://{LOOPBACK}:{port}",
        "container_master_host": "",
        "container_master_port": None,
        "security": options.security.model_copy(update={"tls": named}),
        "address": options.address or own_address(),
    }
    if options.proxies:
        changes["no_proxy"] = ",".join(filter(None, (options.no_proxy, LOOPBACK)))
    return options.model_copy(update=changes)


def own_address() -> str:
    """Where other nodes reach this one, which the master cannot see: as the node's name says, not the default route."""
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    for each in (name, socket.gethostname()):
        with suppress(OSError):
            address = socket.gethostbyname(each)
            if not address.startswith("127."):
                return address
    return ""


def transports_of(options: AgentOptions, environ: Mapping[str, str]) -> dict[str, Transport]:
    """Those that `channels` names, in that order."""
    parts = urlsplit(options.url)
    target = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    folder = options.job_folder
    login = options.ssh_login or next(filter(None, map(environ.get, SUBMITTED_FROM)), "")
    made: dict[str, Callable[[], Transport]] = {
        "direct": lambda: Direct(*target),
        "ssh": lambda: ThroughSsh(login, target, folder),
    }
    if folder is not None:
        made["relay"] = lambda: ThroughRelay(folder)
        made["srun"] = lambda: RequestedTransport("srun", folder, environ)
        made["files"] = lambda: RequestedTransport("files", folder, environ)
    return {name: made[name]() for name in options.channels}
