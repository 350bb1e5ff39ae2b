"""What went wrong in a database, in the store's words: whose fault it is, and which error the caller gets."""

from __future__ import annotations

import sqlite3
from enum import Enum

from sqlalchemy import exc

from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    StoreDamaged,
    StoreUnavailable,
    WindlassError,
)


class OutcomeUnknown(StoreUnavailable):
    """The connection broke during COMMIT and nobody can say what happened: only a restart from the store is safe."""


class DatabaseFault(Enum):
    UNIT = "unit"
    """Something in the batch: alone, the others may pass."""
    DATABASE = "database"
    """The database is locked or away: retrying the parts would only take longer."""


def fault_of(error: Exception) -> DatabaseFault:
    if isinstance(error, WindlassError):
        return DatabaseFault.UNIT
    if isinstance(as_windlass_error(error), StoreDamaged):
        return DatabaseFault.DATABASE
    locked = isinstance(error, exc.OperationalError) and "locked" in _text(error)
    if is_disconnect(error) or locked:
        return DatabaseFault.DATABASE
    return DatabaseFault.UNIT


def is_disconnect(error: Exception) -> bool:
    """The connection is gone (or never came up), as opposed to a statement that was refused."""
    if isinstance(error, exc.DBAPIError):
        return error.connection_invalidated
    state = _sqlstate(error)
    return isinstance(error, _AWAY) or state.startswith("08") or state in _STARTING_OR_STOPPING


def as_windlass_error(error: Exception) -> WindlassError:
    """The error a caller of the store gets; `error` itself goes along as its cause."""
    if isinstance(error, WindlassError):
        return error
    if _is_damage(error):
        return StoreDamaged(
            f"the database is damaged ({_text(error)}), nothing is written any more: stop the master, look with "
            "`windlass master check --db`, and restore the last backup"
        )
    state_class = _sqlstate(error)[:2]
    if isinstance(error, exc.IntegrityError) or state_class == "23":
        return Conflict(_text(error))
    if isinstance(error, exc.DataError) or state_class == "22":
        return InvalidArgument(f"the database cannot hold a value: {_text(error)}")
    if isinstance(error, exc.ProgrammingError | sqlite3.ProgrammingError):
        return WindlassError(f"a statement of the store is wrong: {_text(error)}")
    if isinstance(error, _AWAY) or _sqlstate(error) in _STARTING_OR_STOPPING:
        return StoreUnavailable(f"the database cannot be reached now: {_text(error)}")
    if isinstance(error, exc.DBAPIError) or state_class:
        return StoreUnavailable(f"the database cannot commit now: {_text(error)}")
    return WindlassError(f"the store failed: {_text(error)}")


_AWAY = OSError | TimeoutError | exc.TimeoutError
_STARTING_OR_STOPPING = frozenset({"57P01", "57P02", "57P03"})
"""admin_shutdown, crash_shutdown, cannot_connect_now: PostgreSQL says them while it restarts."""


_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_POSTGRES_DAMAGE = frozenset({"XX001", "XX002"})
"""data_corrupted, index_corrupted"""


def _is_damage(error: Exception) -> bool:
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    primary = getattr(original, "sqlite_errorcode", 0) & 0xFF
    return primary in _DAMAGE or _sqlstate(error) in _POSTGRES_DAMAGE


def _sqlstate(error: Exception) -> str:
    """PostgreSQL's five characters; empty for SQLite. COPY raises the driver's own errors."""
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    return str(getattr(original, "sqlstate", None) or "")


def _text(error: Exception) -> str:
    """One line, without the statement and its parameters: those may hold secrets."""
    original = error.orig if isinstance(error, exc.StatementError) and error.orig else error
    text = str(original) or type(original).__name__
    return text.splitlines()[0].removeprefix("<class 'asyncpg.exceptions.").replace("'>", "")
