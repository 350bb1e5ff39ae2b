"""What a database says, in the store's words."""

from __future__ import annotations

import pytest
from asyncpg import exceptions as postgres

from master.store.sql.faults import as_windlass_error, is_disconnect
from windlass.base.errors import StoreUnavailable


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        postgres.AdminShutdownError("terminating connection due to administrator command"),
        postgres.CrashShutdownError("terminating connection because of crash"),
        postgres.CannotConnectNowError("the database system is starting up"),
    ],
)
def test_a_postgresql_that_restarts_is_away_for_a_while(error: Exception) -> None:
    assert is_disconnect(error), "its commit is looked up, and not given up"
    said = as_windlass_error(error)
    assert isinstance(said, StoreUnavailable)
    assert said.message == f"the database cannot be reached now: {error}"


def test_a_full_postgresql_says_so() -> None:
    full = postgres.DiskFullError('could not extend file "base/1": No space left on device')
    assert not is_disconnect(full)
    assert as_windlass_error(full).message == f"the database cannot commit now: {full}"
