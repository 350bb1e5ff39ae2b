"""round_robin: jobs take turns, who has fewest slots first.

1. Jobs are ordered once per decision: by the slots they use, fewest first, then by age.
2. In rounds, every job offers its first waiting request, by (requested, id). If that fits it starts, and the job stays
   in the round. If slots that are coming back anyhow or capacity that is booting or could be launched in time will
   hold it, they are promised to it, and the job stays, too. Else the job is out for this decision: its later
   requests wait behind the first.
3. A request above its job's `max_slots` says so and is not offered. One that could never be placed says so, too; it is
   offered in its turn all the same, so what its job asked for later waits behind it.

Nothing is ever asked to leave. Zero-slot tasks have places of their own, first in, first out.

The turns are those of Determined 0.33, the last that had this policy. There places were tested without reserving them,
`max_slots` was ignored, and zero-slot tasks shared the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

from master.core.scheduler.decision_builder import DecisionBuilder
from master.core.scheduler.fitting import EXPECTED, REAL
from master.core.scheduler.ledger import JobAccount, Wanted
from master.core.scheduler.queue_order import by_age
from master.core.scheduler.types import Decision, PoolState, Request
from master.core.scheduler.unplaced import explain_turns


def decide(pool: PoolState) -> Decision:
    builder = DecisionBuilder(pool)
    accounts = sorted(
        builder.accounts.values(), key=lambda account: (account.held + account.leaving, account.age)
    )
    blocked_from = _first_hopeless(builder.ledger.hopeless)
    round_ = [(account, _offered(account, blocked_from)) for account in accounts if account.waiting]
    while round_:
        round_ = [(account, rest) for account, rest in round_ if _take_turn(builder, account, rest)]
    builder.reasons |= explain_turns(
        pool, builder.ledger, accounts, builder.starts, builder.reasons, blocked_from
    )
    return builder.finish(builder.ledger.aux)


def _first_hopeless(hopeless: Iterable[Wanted]) -> dict[str, Request]:
    """By job, the first of its requests that could never be placed."""
    first: dict[str, Request] = {}
    for request, _ in hopeless:  # by age
        first.setdefault(request.job_id, request)
    return first


def _offered(account: JobAccount, blocked_from: Mapping[str, Request]) -> Iterator[Wanted]:
    """A job's requests up to the first that could never be placed."""
    first = blocked_from.get(account.job.id)
    if first is None:
        return iter(account.waiting)
    return takewhile(lambda wanted: by_age(wanted[0]) < by_age(first), account.waiting)


def _take_turn(builder: DecisionBuilder, account: JobAccount, rest: Iterator[Wanted]) -> bool:
    """Whether the job stays in the round."""
    offered = next(rest, None)
    if offered is None:
        return False
    request, shape = offered
    if shape.slots > account.room - account.promised:
        return False
    placement = builder.find_free(shape)
    if placement is not None:
        builder.start(request, shape, placement)
        return True
    if builder.availability.is_anything_leaving and builder.promise(request, shape, REAL):
        return True
    return bool(builder.ledger.expected) and builder.promise(request, shape, EXPECTED)
