"""PostgreSQL by asyncpg: one writing connection, a few reading ones, and an answer when COMMIT breaks off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from master.store.sql.faults import OutcomeUnknown, is_disconnect
from master.store.sql.json_codec import decode_json, encode_json

log = logging.getLogger(__name__)
T = TypeVar("T")

READERS = 5
RESOLVE_S = 30.0
"""How long to ask whether a broken-off COMMIT happened: a restart of the server fits in."""
RESOLVE_EVERY_S = 0.25

_TRANSACTION_ID = text("SELECT txid_current()")
_TRANSACTION_STATUS = text("SELECT txid_status(:id)")


class PostgresDatabase:
    dialect = "postgresql"

    def __init__(self, url: URL) -> None:
        self._writer = _engine(url, pool_size=1, pool_recycle=3600)
        self._reader = _engine(
            url,
            pool_size=READERS,
            pool_pre_ping=True,
            isolation_level="AUTOCOMMIT",
            connect_args={"server_settings": {"default_transaction_read_only": "on"}},
        )

    async def write(self, work: Callable[[Connection], T]) -> T:
        """A connection that broke before COMMIT changed nothing: that is tried once more, on a new one."""
        try:
            return await self._transact(work)
        except OutcomeUnknown:
            raise
        except Exception as error:
            if not is_disconnect(error):
                raise
            log.warning("lost the connection to PostgreSQL, connecting again")
        return await self._transact(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        async with self._reader.connect() as connection:
            return await connection.run_sync(work)

    async def close(self) -> None:
        await self._reader.dispose()
        await self._writer.dispose()

    async def _transact(self, work: Callable[[Connection], T]) -> T:
        async with self._writer.connect() as connection:
            transaction_id = (await connection.execute(_TRANSACTION_ID)).scalar_one()
            result = await connection.run_sync(work)
            try:
                await connection.commit()
            except Exception as error:
                if not is_disconnect(error) or not await self._committed(transaction_id):
                    raise
            return result

    async def _committed(self, transaction_id: int) -> bool:
        """Whether a transaction whose COMMIT was never answered happened. Raises OutcomeUnknown when nobody can say."""
        log.warning("the connection to PostgreSQL broke during COMMIT, asking what became of it")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RESOLVE_S
        while loop.time() < deadline:
            try:
                async with self._reader.connect() as connection:
                    status = await _status(connection, transaction_id)
            except Exception as error:
                if not is_disconnect(error):
                    raise OutcomeUnknown(
                        f"cannot tell whether a commit happened: {error}"
                    ) from error
                status = None
            if status in ("committed", "aborted"):
                return status == "committed"
            await asyncio.sleep(RESOLVE_EVERY_S)
        raise OutcomeUnknown("PostgreSQL went away during COMMIT and did not come back in time")


async def _status(connection: AsyncConnection, transaction_id: int) -> str | None:
    row = await connection.execute(_TRANSACTION_STATUS, {"id": transaction_id})
    status: str | None = row.scalar_one()
    return status


def _engine(url: URL, **options: Any) -> AsyncEngine:
    return create_async_engine(
        url,
        max_overflow=0,
        json_serializer=encode_json,
        json_deserializer=decode_json,
        hide_parameters=True,
        **options,
    )
