"""The leader lease: one row whose epoch every commit checks, so that a master that was replaced changes nothing.

The leader renews it. Another master waits until it has expired, unless it has locked the leader's own data folder: that
leader is gone then. Times are the database's, where that has a clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from master.store.sql.statements import table_of
from master.store.tables import Leader
from windlass.base.errors import LeaseHeld, LeaseLost

_LEADER = table_of(Leader)
_ONLY_ROW = 1
_NOBODY = ""
"""The `master_id` of a lease that was given back."""
LEASE = timedelta(seconds=15)
RENEW_S = 5.0
_RACE = "another master took the lease at the same moment"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderCandidate:
    """A master that would lead."""

    master_id: str
    holder: str = ""
    """For people."""
    place: str = ""
    """Of the data folder that it has locked."""
    unrenewed: datetime | None = None
    """The expiry that it saw, if it has waited for it since."""


def take_lease(connection: Connection, who: LeaderCandidate, now: datetime) -> int:
    """Raise the epoch by one, if nobody else does meanwhile (LeaseLost). Who led before loses it at its next commit.

    Raises LeaseHeld while another master leads that may live.
    """
    now = _database_time(connection, now)
    row = connection.execute(select(_LEADER).where(_LEADER.c.id == _ONLY_ROW)).one_or_none()
    old = row.epoch if row is not None else None
    if row is not None and _may_live(row, who, now):
        wait_s = min(row.expires_at - now, LEASE).total_seconds()
        raise LeaseHeld(row.holder or f"master {row.master_id}", row.expires_at, wait_s)
    new = {
        "epoch": (old or 0) + 1,
        "master_id": who.master_id,
        "taken_at": now,
        "holder": who.holder,
        "place": who.place,
        "expires_at": now + LEASE,
    }
    if row is None:
        try:
            connection.execute(insert(_LEADER), {"id": _ONLY_ROW, **new})
        except IntegrityError:
            raise LeaseLost(_RACE) from None
    else:
        changed = connection.execute(
            update(_LEADER)
            .where(
                _LEADER.c.id == _ONLY_ROW,
                _LEADER.c.epoch == old,
                _LEADER.c.expires_at.is_not_distinct_from(row.expires_at),
            )
            .values(new)
        )
        if changed.rowcount != 1:
            raise LeaseLost(_RACE)
    return (old or 0) + 1


def _may_live(row: Row[Any], who: LeaderCandidate, now: datetime) -> bool:
    if row.master_id == _NOBODY or row.place == who.place:
        return False  # it gave the lease back, or the folder that it had locked is ours
    # Not renewed in all the time that we have waited: also where a clock was set back.
    return row.expires_at is not None and row.expires_at > now and row.expires_at != who.unrenewed


def renew_lease(connection: Connection, epoch: int, now: datetime) -> None:
    """Raises LeaseLost."""
    connection.execute(
        update(_LEADER)
        .where(_LEADER.c.id == _ONLY_ROW, _LEADER.c.epoch == epoch)
        .values(expires_at=_database_time(connection, now) + LEASE)
    )
    check_lease(connection, epoch)


def _database_time(connection: Connection, now: datetime) -> datetime:
    """SQLite has the clock of its machine."""
    if connection.dialect.name != "postgresql":
        return now
    found: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return found


def give_back_lease(connection: Connection, epoch: int) -> None:
    """Nobody leads from now on, unless another master took the lease meanwhile."""
    connection.execute(
        update(_LEADER)
        .where(_LEADER.c.id == _ONLY_ROW, _LEADER.c.epoch == epoch)
        .values(master_id=_NOBODY)
    )


_LEADER_NOW = select(_LEADER.c.epoch, _LEADER.c.master_id).where(_LEADER.c.id == _ONLY_ROW)
_LEADING = _LEADER_NOW.with_for_update(read=True)
"""PostgreSQL: a successor waits with its takeover until this transaction is over. SQLite has one writer anyway."""


def check_lease(connection: Connection, epoch: int, *, keep: bool = True) -> None:
    """Raise LeaseLost unless `epoch` still leads, and `keep` it so until this transaction ends."""
    row = connection.execute(_LEADING if keep else _LEADER_NOW).one_or_none()
    if row is None or row.master_id == _NOBODY:
        raise LeaseLost(f"this master led with epoch {epoch}, now nobody leads")
    if row.epoch != epoch:
        raise LeaseLost(
            f"this master led with epoch {epoch}, now master {row.master_id} leads with epoch {row.epoch}"
        )
