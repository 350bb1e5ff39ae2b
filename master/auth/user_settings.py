"""What pages remember of their users: texts by path and key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from master.core.actor import Actor
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.errors import InvalidArgument

MAX_SETTINGS = 1_000
"""Of one user."""
MAX_NAME = 500
"""Characters of a key, and of a path."""
MAX_VALUE = 256 * 1024
"""Characters: a view of a table with all its columns has some thousands."""

_S = tables.UserSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSetting:
    key: str
    storage_path: str = ""
    value: str | None = None


class UserSettings:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._mailbox = SerialQueue("user settings")

    async def all(self, user_id: int) -> Sequence[UserSetting]:
        """By path and key."""
        rows = await self._store.read(
            select(_S).where(_S.user_id == user_id).order_by(_S.storage_path, _S.key)
        )
        return [
            UserSetting(key=row.key, storage_path=row.storage_path, value=row.value) for row in rows
        ]

    async def put(self, settings: Sequence[UserSetting], *, by: Actor) -> None:
        """Of `by`; others stay as they are. Raises InvalidArgument."""
        user_id = by.user_id
        for number, one in enumerate(settings):
            _check(f"settings.{number}", one)

        async def put() -> None:
            there = {(one.storage_path, one.key) for one in await self.all(user_id)}
            if len(there | {(one.storage_path, one.key) for one in settings}) > MAX_SETTINGS:
                raise InvalidArgument(
                    f"settings: a user has at most {MAX_SETTINGS}: reset them first"
                )
            unit = UnitOfWork()
            for one in settings:
                row = {"user_id": user_id, "storage_path": one.storage_path, "key": one.key}
                unit.upsert(_S, {**row, "value": one.value})
            if unit:
                await self._store.commit(unit)

        await self._mailbox.run(put)

    async def reset(self, *, by: Actor) -> None:
        """Delete all of `by`."""

        async def reset() -> None:
            unit = UnitOfWork()
            unit.delete(_S, {"user_id": by.user_id})
            await self._store.commit(unit)

        await self._mailbox.run(reset)


def _check(where: str, one: UserSetting) -> None:
    if not 1 <= len(one.key) <= MAX_NAME:
        raise InvalidArgument(f"{where}.key: must have 1 to {MAX_NAME} characters")
    if len(one.storage_path) > MAX_NAME:
        raise InvalidArgument(f"{where}.storagePath: is longer than {MAX_NAME} characters")
    if one.value is not None and len(one.value) > MAX_VALUE:
        raise InvalidArgument(f"{where}.value: is longer than {MAX_VALUE} characters")
