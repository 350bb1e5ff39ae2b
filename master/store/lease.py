"""The leader lease: one row whose epoch every commit checks, so that a master that was replaced changes nothing."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from master.store.statements import table_of
from master.store.tables import Leader
from windlass.base.errors import LeaseLost

_LEADER = table_of(Leader)
_ONLY_ROW = 1
_NOBODY = ""
"""The `master_id` of a lease that was given back."""
_RACE = "another master took the lease at the same moment"


def take_lease(connection: Connection, master_id: str, now: datetime) -> int:
    """Raise the epoch by one, if nobody else does meanwhile (LeaseLost). Who led before loses it at its next commit."""
    old = connection.execute(
        select(_LEADER.c.epoch).where(_LEADER.c.id == _ONLY_ROW)
    ).scalar_one_or_none()
    new = {"epoch": (old or 0) + 1, "master_id": master_id, "taken_at": now}
    if old is None:
        try:
            connection.execute(insert(_LEADER), {"id": _ONLY_ROW, **new})
        except IntegrityError:
            raise LeaseLost(_RACE) from None
    else:
        changed = connection.execute(
            update(_LEADER).where(_LEADER.c.id == _ONLY_ROW, _LEADER.c.epoch == old).values(new)
        )
        if changed.rowcount != 1:
            raise LeaseLost(_RACE)
    return (old or 0) + 1


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
