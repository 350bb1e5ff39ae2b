"""Becoming the leader: the lease of a master that may have died is waited for once."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from pathlib import Path

import structlog

from master.data_folder import place_of
from master.store.lease import RENEW_S, LeaderCandidate
from master.store.store import Store
from windlass.base.errors import LeaseHeld
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)


async def lead(store: Store, master_id: str, folder: Path) -> int:
    """The epoch, for the process that has locked `folder`.

    Raises LeaseHeld if another master lives: if it renews its lease while we wait for it.
    """
    holder = f"process {os.getpid()} on {socket.gethostname()} with the data folder {folder}"
    who = LeaderCandidate(master_id=master_id, holder=holder, place=place_of(folder))
    try:
        return await store.take_lease(who)
    except LeaseHeld as held:
        log.warning(
            "another master led last and has not given its lease back: waiting until that expires",
            holder=held.holder,
            seconds=round(held.wait_s, 1),
        )
        await asyncio.sleep(held.wait_s)
        return await store.take_lease(replace(who, unrenewed=held.expires_at))


async def keep_leading(store: Store) -> None:
    """Raises LeaseLost once another master leads."""
    if not store.is_inline:
        await Loop("lease", store.renew_lease, interval_s=RENEW_S).run()
