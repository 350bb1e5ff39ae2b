"""One process: the control plane and its HTTP server on one event loop."""

from __future__ import annotations

import asyncio
import gc
import math
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import structlog
import uvicorn
from fastapi import FastAPI

from agent_bootstrap.frames import MAX_FROM_AGENT_BYTES
from master.api.application import begin_shutdown, build_app
from master.app import Master, MasterOptions
from master.config import MasterConfig
from master.server.connections import (
    SWEEP_S,
    ConnectionTable,
    HttpConnection,
    WebSocketConnection,
)
from master.server.listener import TAKEN_AT_ONCE, bound
from master.server.loop_watch import WatchedLoop
from master.server.stopping import ServiceManager, StopSignal
from master.tls.handshake import TlsHandshake
from master.tls.serving import LOOK_S, ServedTls
from windlass.base.errors import LeaseLost, WindlassError
from windlass.base.kept_connections import MASTER_KEEPS_S
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

COLLECT_EVERY = (50_000, 20, 10)
"""More objects (young ones), and collections of each younger generation, before the collector runs: 700, 10, 10 is
Python's own, and doubles the time of a large pool's grants."""
SWITCH_EVERY_S = 0.001
"""A request waits so long, at each of its steps, for a thread that computes; 5 ms are Python's own."""


def serve(options: MasterOptions) -> None:
    """Run until SIGTERM or SIGINT, then stop cleanly.

    Raises WindlassError, or OSError for its address, for what an operator can mend.
    """
    raise_file_limit()
    gc.freeze()  # modules and models: no collection looks at them
    config = options.config
    with ExitStack() as stack:
        ports = [port for port in (config.port, config.webui.task_port) if port is not None]
        listeners = [stack.enter_context(bound(config.host, port)) for port in ports]
        try:
            with asyncio.Runner(loop_factory=WatchedLoop) as runner:
                runner.run(_serve(options, listeners))
        except* WindlassError as group:
            raise _first(group) from None


def raise_file_limit() -> None:
    """As many open files as this user may have: each live task holds a connection, and the default is often 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(options: MasterOptions, listeners: Sequence[socket.socket]) -> None:
    manager = ServiceManager()
    tls = options.tls
    with StopSignal() as stop:
        master = await Master.open(options)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(master.run())
            reading = group.create_task(_read_certificates(tls)) if tls is not None else None
            await _first_of(running, master.ready(), stop.wait())
            if not running.done() and not stop.is_set():
                tune_interpreter()
                await asyncio.sleep(0)  # agents that come back are heard in between
                app = build_app(master.services)
                await asyncio.sleep(0)
                manager.ready()
                server = web_server(app, options.config, tls)
                await _serve_until(server, listeners, running, stop)
            manager.stopping()
            running.cancel()
            if reading is not None:
                reading.cancel()
    log.info("the master has stopped")


async def _read_certificates(tls: ServedTls) -> None:
    """Again when files change, and at SIGHUP."""
    looking = Loop("certificate", tls.look, interval_s=LOOK_S)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, looking.wake)
    await looking.run()


def web_server(app: FastAPI, config: MasterConfig, tls: ServedTls | None = None) -> WebServer:
    """What listens for people, tasks and agents."""
    table = ConnectionTable(config.connections)
    return WebServer(
        uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", _protocol(table, tls)),
            host=config.host,
            port=config.port,
            lifespan="off",
            log_config=None,
            access_log=False,
            backlog=TAKEN_AT_ONCE,
            timeout_keep_alive=MASTER_KEEPS_S,
            timeout_graceful_shutdown=math.ceil(config.shutdown_grace.total_seconds()),
            ws=cast("type[asyncio.Protocol]", partial(WebSocketConnection, table)),
            ws_max_size=MAX_FROM_AGENT_BYTES,
            ws_per_message_deflate=False,
            server_header=False,
            proxy_headers=False,  # `master.api.http.trusted_proxies` reads them
        ),
        table,
    )


def _protocol(table: ConnectionTable, tls: ServedTls | None) -> Callable[..., asyncio.Protocol]:
    """What uvicorn makes for each connection."""
    if tls is None:
        return partial(HttpConnection, table)

    def begin(**uvicorns: Any) -> asyncio.Protocol:
        context = tls.certificate.context
        return TlsHandshake(table, context, lambda below: HttpConnection(table, below, **uvicorns))

    return begin


async def _serve_until(
    server: WebServer,
    listeners: Sequence[socket.socket],
    running: asyncio.Task[None],
    stop: StopSignal,
) -> None:
    """Answer requests until the master is told to stop, or ends by itself; then let those under way end."""
    serving = asyncio.create_task(server.serve(sockets=list(listeners)))
    try:
        await _first_of(running, serving, stop.wait())
    finally:
        server.should_exit = True
        await serving


class WebServer(uvicorn.Server):
    """Answers long polls before it waits for its connections to end, and leaves signals to `StopSignal`.

    Agents' connections are closed first, with the code for a restart: they look for the next master at once.
    """

    def __init__(self, config: uvicorn.Config, table: ConnectionTable) -> None:
        super().__init__(config)
        self._table = table

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        sweeping = asyncio.create_task(
            Loop("connections", self._table.sweep, interval_s=SWEEP_S).run()
        )
        try:
            await super().serve(sockets)
        finally:
            sweeping.cancel()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Uvicorn's own raises a signal again once it has served, which would end the process before its clean-up."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        begin_shutdown(cast("FastAPI", self.config.app))
        await super().shutdown(sockets)


def tune_interpreter() -> None:
    """For one event loop beside threads that decide on large pools.

    What was restored stays for long, and decisions make many objects in no cycle: the collector looks less often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
    sys.setswitchinterval(SWITCH_EVERY_S)


async def _first_of(running: asyncio.Task[None], *others: Awaitable[None]) -> None:
    """Return when one of them is done; what is not a task of its own is cancelled then."""
    waits = [asyncio.ensure_future(other) for other in others]
    try:
        await asyncio.wait({running, *waits}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait, given in zip(waits, others, strict=True):
            if wait is not given:
                wait.cancel()


def _first(group: BaseExceptionGroup[WindlassError]) -> WindlassError:
    """The one to show: a lost lease explains everything else."""
    found: list[WindlassError] = []
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        elif isinstance(error, WindlassError):
            found.append(error)
    return next((e for e in found if isinstance(e, LeaseLost)), found[0])
