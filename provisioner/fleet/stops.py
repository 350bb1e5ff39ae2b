"""How a machine is stopped and started again, as the same machine. Pure.

    READY --> STOPPING --> STOPPED --> STARTING --> BOOTING --> READY
                 |            ^            |
                 v            +- refused --+      what cannot be stopped is ended
            TERMINATING

Both are decided and committed before the provider is asked, and asked again until it answers: stopping what is stopped
and starting what runs are successes. So whatever line a master dies at, the next one repeats the call or sees in the
list what became of it. One that is listed as running although it should be stopped was started by somebody else, or by
a call whose answer was lost: it is booting, and ended if no agent comes.

A call to stop a machine knows nothing of a start that overtakes it. So none is started while one may still arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from provisioner.fleet.instances import (
    EndKind,
    EndRequest,
    InstanceRecord,
    InstanceState,
    ListedAs,
    Observation,
    Rules,
    StoppedTime,
    move,
    ready,
)

STOP_RETRY_S = 60.0
"""Between two calls to stop a machine."""
START_RETRY_S = 35.0
"""Between two calls to start one: the first has ended by then, answered or not."""
STOP_WITHIN_S = 900.0
"""One that has not stopped by then is ended."""
START_WITHIN_S = 150.0
"""A start that nobody answered is given up by then, if a list shows the machine stopped."""
LATE_STOP_S = 300.0
"""So long a call that nobody answered may still be carried out: EC2 refuses one that was signed longer ago."""
_S = InstanceState


def stopping(record: InstanceRecord, why: str, now: float) -> InstanceRecord:
    """Decided: from here on it gets no work."""
    return move(
        record, _S.STOPPING, reason=why, stopping_since=now, claims=(), switch_called_at=None
    )


def stop_may_come(record: InstanceRecord, now: float, watching_since: float) -> bool:
    """Some call to stop that machine, which has stopped, may still be carried out."""
    if record.stop_under_way or (
        record.late_stop_until is not None and now < record.late_stop_until
    ):
        return True
    asked, stopped = record.stopping_since, record.stops[-1].since
    if asked is None or asked >= watching_since:
        return False
    # Of an earlier master, which may have died before the answer: it asked no more once it was gone, or saw it stopped.
    return now - min(watching_since, stopped) < LATE_STOP_S


def stop_answered(record: InstanceRecord, now: float, *, in_doubt: bool) -> InstanceRecord:
    """`in_doubt`: nobody knows whether it was, or will be, carried out."""
    until = now + LATE_STOP_S if in_doubt else record.late_stop_until
    return replace(record, stop_under_way=False, late_stop_until=until)


def starting(record: InstanceRecord, claims: Sequence[str], now: float) -> InstanceRecord:
    """Decided, for these gangs: it is paid for from here on."""
    return move(
        record,
        _S.STARTING,
        stops=_last(record, until=now),
        claims=tuple(claims),
        reason="",
        switch_called_at=None,
    )


def started(record: InstanceRecord) -> InstanceRecord:
    """The provider agreed."""
    return move(record, _S.BOOTING) if record.state is _S.STARTING else record


def not_started(record: InstanceRecord, why: str) -> InstanceRecord:
    """The provider refused: it is stopped as before."""
    if record.state is not _S.STARTING:
        return record
    return move(record, _S.STOPPED, stops=_last(record, until=None), claims=(), reason=why)


def switched(record: InstanceRecord, seen: Observation, now: float, rules: Rules) -> InstanceRecord:
    """Take in one observation of a machine that is being stopped or started, or is stopped."""
    match record.state:
        case _S.STOPPING if seen.listing is ListedAs.STOPPED:
            return move(record, _S.STOPPED, stops=(*record.stops, StoppedTime(since=now)))
        case _S.STARTING if seen.connected and _is_new(record, seen):
            return ready(record, now)
        case _S.STARTING if seen.listing in _RUNS and _is_new(record, seen):
            return started(record)
        case _S.STOPPED if seen.listing in _RUNS and (
            seen.looked_at - record.stops[-1].since > rules.list_grace_s
        ):
            return move(record, _S.BOOTING, stops=_last(record, until=now), reason="")
    return record


def never_started(record: InstanceRecord, seen: Observation) -> bool:
    """It was to be started long ago, nobody answered, and it is stopped still."""
    return (
        record.state is _S.STARTING
        and seen.listing is ListedAs.STOPPED
        and seen.looked_at - record.boot_since >= START_WITHIN_S
    )


def cannot_stop(record: InstanceRecord, now: float) -> EndRequest | None:
    """It should have stopped long ago."""
    since = record.stopping_since
    if record.state is not _S.STOPPING or since is None or now - since < STOP_WITHIN_S:
        return None
    why = f"it has not stopped within {now - since:.0f} s"
    return EndRequest(instance_id=record.id, kind=EndKind.STOPPED, why=why)


_RUNS = (ListedAs.PENDING, ListedAs.RUNNING)


def _is_new(record: InstanceRecord, seen: Observation) -> bool:
    """What is seen was so after the decision to start it: it had stopped before."""
    return seen.listing is ListedAs.UNKNOWN or seen.looked_at > record.boot_since


def _last(record: InstanceRecord, *, until: float | None) -> tuple[StoppedTime, ...]:
    return (*record.stops[:-1], replace(record.stops[-1], until=until))
