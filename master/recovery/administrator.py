"""An administrator for a cluster that nobody may administrate any more: on the machine of its stopped master."""

from __future__ import annotations

import asyncio
from pathlib import Path

from master.auth.role_service import RoleService
from master.auth.service import MASTER, AuthService
from master.auth.user_rules import UserPatch
from master.leading import lead
from master.store.store import Store
from windlass.base.clock import Clock
from windlass.base.ids import Ids


async def recover_administrator(url: str, folder: Path, username: str, clock: Clock) -> None:
    """Make this user active, an administrator, and ClusterAdmin. `folder`: of the master, which is held.

    Raises NotFound for an unknown user, LeaseHeld while a master runs.
    """
    store = await Store.open(url, clock=clock)
    try:
        await lead(store, "recover-admin", folder)
        writing = asyncio.create_task(store.run())
        try:
            auth, roles = AuthService(store, clock, Ids()), RoleService(store)
            await auth.load()
            await roles.load()
            user = auth.user_by_name(username)
            await auth.patch(user.id, UserPatch(active=True, admin=True), by=MASTER)
            await roles.make_administrator(user.id, by=MASTER)
        finally:
            await store.give_back_lease()
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
    finally:
        await store.close()
