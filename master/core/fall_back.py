"""Which request may leave its pool, when, and where to: the rules of falling back. Pure.

    at home ──its pool cannot serve it, for `after_s`──> in the first pool of the list that would start it
       ^                                                                   │
       └──────────────── its own pool could start it first ────────────────┘

From another pool there is the way home and, if it cannot serve the request after all, the way to the later pools of the
same list; never to an earlier one, nor by another pool's list. No request moves twice within `REST_S`. Times are
monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from master.core.reasons import ReasonKind
from master.core.scheduler.types import Decision, PoolState

REST_S = 120.0
"""How long a request stays where it has moved to."""
SURE_S = 2.0
"""How long a pool must say that it can never hold a request: what it could launch may just not be known yet."""

STUCK = frozenset(
    {
        ReasonKind.NO_CAPACITY,
        ReasonKind.QUEUED_AT_PROVIDER,
        ReasonKind.QUOTA,
        ReasonKind.AT_LIMIT,
        ReasonKind.OVER_BUDGET,
        ReasonKind.THROTTLED,
        ReasonKind.UNREACHABLE,
        ReasonKind.CREDENTIALS,
        ReasonKind.MISCONFIGURED,
        ReasonKind.NO_SUCH_AGENT,
    }
)
"""The pool cannot serve it: nothing that runs or starts there changes that."""
COMING = frozenset({ReasonKind.LAUNCHING, ReasonKind.STARTING, ReasonKind.NEEDS_CAPACITY})
"""A machine for it is, or may soon be, on its way. It may fail to come: the time before counts on."""


class Prospect(IntEnum):
    """What a pool would do for a request that asked now, without asking anybody to leave."""

    LAUNCH = 1
    """A machine that could be launched, or is on its way, would hold it."""
    START = 2
    """Free slots would hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallBackRule:
    """Where work of a pool may fall back to."""

    pools: tuple[str, ...]
    """In the order in which they are asked."""
    after_s: float = 300.0
    """How long its own pool must have been unable to serve it."""


NOWHERE = FallBackRule(pools=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One request that waits, as far as moving it depends on."""

    home: str
    pool: str
    """Where it waits."""
    kind: ReasonKind = ReasonKind.QUEUED
    """Why, as of the last look."""
    stuck_since: float | None = None
    """Since when its pool cannot serve it, as seen at every look; None: it can."""
    hopeless: bool = False
    """Its pool could not hold it even if it were empty."""
    moved_at: float | None = None
    refused_by: frozenset[str] = frozenset()
    """Pools that have said of this very request that they will never take it."""

    @property
    def is_away(self) -> bool:
        return self.pool != self.home


def seen(wait: Wait, kind: ReasonKind, now: float, *, hopeless: bool = False) -> Wait:
    """After a look at why it waits. `hopeless` counts for reasons in `STUCK` only."""
    since = wait.stuck_since
    hopeless = hopeless or wait.pool in wait.refused_by
    if kind in STUCK:
        since = now if since is None else since
    else:
        hopeless = False
        since = since if kind in COMING else None
    if (kind, hopeless, since) == (wait.kind, wait.hopeless, wait.stuck_since):
        return wait
    return replace(wait, kind=kind, hopeless=hopeless, stuck_since=since)


def moved(wait: Wait, pool: str, now: float) -> Wait:
    return Wait(home=wait.home, pool=pool, moved_at=now, refused_by=wait.refused_by)


def refused(wait: Wait) -> Wait:
    """The pool where it waits will never take it."""
    return replace(wait, refused_by=wait.refused_by | {wait.pool})


def left(wait: Wait, rule: FallBackRule) -> tuple[str, ...]:
    """The pools that may take it still, beside the one where it waits."""
    pools = (wait.home, *_after(wait, rule)) if wait.is_away else rule.pools
    return tuple(pool for pool in pools if pool not in wait.refused_by)


def ripe_at(wait: Wait, rule: FallBackRule) -> float | None:
    """From when on it may leave its own pool, if nothing changes; None: not for the reason that it has."""
    if wait.kind not in STUCK or wait.stuck_since is None or not rule.pools:
        return None
    ripe = wait.stuck_since + (min(SURE_S, rule.after_s) if wait.hopeless else rule.after_s)
    return ripe if wait.moved_at is None else max(ripe, wait.moved_at + REST_S)


def targets(wait: Wait, rule: FallBackRule, now: float) -> tuple[str, ...]:
    """The pools that it may move to now, best first."""
    if wait.is_away:
        rested = wait.moved_at is None or now >= wait.moved_at + REST_S
        pools = (wait.home, *_later(wait, rule, now)) if rested else ()
    else:
        at = ripe_at(wait, rule)
        pools = rule.pools if at is not None and now >= at else ()
    return tuple(pool for pool in pools if pool not in wait.refused_by)


def _later(wait: Wait, rule: FallBackRule, now: float) -> tuple[str, ...]:
    """What its list has after the pool where it waits, once that has been unable to serve it for as long as a rest."""
    if wait.kind not in STUCK or wait.stuck_since is None:
        return ()
    return _after(wait, rule) if now >= wait.stuck_since + REST_S else ()


def _after(wait: Wait, rule: FallBackRule) -> tuple[str, ...]:
    at = rule.pools.index(wait.pool) if wait.pool in rule.pools else len(rule.pools)
    return rule.pools[at + 1 :]


def is_better(wait: Wait, prospect: Prospect | None) -> bool:
    """Whether a pool among its targets serves it sooner than the one where it waits."""
    if prospect is Prospect.START:
        return True
    return prospect is Prospect.LAUNCH and wait.kind not in COMING


def prospects(
    state: PoolState, decision: Decision, slots: Mapping[str, int]
) -> Mapping[str, Prospect]:
    """What the decision, made as if these requests had come, would do for them.

    `slots` by request id. Left out: those that wait for others, or for which others are asked to leave.
    """
    at_cost = {id_ for release in decision.release for id_ in release.for_requests}
    starts = {start.request_id for start in decision.start}
    found: dict[str, Prospect] = {}
    for id_ in slots:
        if id_ in at_cost:
            continue
        if id_ in starts:
            found[id_] = Prospect.START
        elif _launches(state, decision, id_, slots[id_]):
            found[id_] = Prospect.LAUNCH
    return found


def _launches(state: PoolState, decision: Decision, id_: str, slots: int) -> bool:
    """Capacity that is expected would hold it: the scheduler has promised it some, or it asks for a place only."""
    waiting = decision.waiting.get(id_)
    if waiting is None or not waiting.needs_capacity or not state.launchable:
        return False
    return slots == 0 or waiting.reason.kind is ReasonKind.NEEDS_CAPACITY


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAnswer:
    """What one pool does for the requests that asked it together."""

    takes: tuple[str, ...]
    later: frozenset[str]
    """It would take these too, but is asked again first: what it launches for one is not there for the next."""


def answer(asking: Mapping[str, Wait], prospects: Mapping[str, Prospect]) -> PoolAnswer:
    """By request id, the ones to be served first in front."""
    better = [id_ for id_, wait in asking.items() if is_better(wait, prospects.get(id_))]
    launches = [id_ for id_ in better if prospects[id_] is Prospect.LAUNCH]
    later = frozenset(launches[1:])
    return PoolAnswer(takes=tuple(id_ for id_ in better if id_ not in later), later=later)
