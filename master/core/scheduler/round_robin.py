"""round_robin: jobs take turns, who has fewest slots first.

1. Jobs are ordered once per decision: by the slots they use, fewest first, then by age.
2. In rounds, every job offers its first waiting request, by (requested, id). If that fits it starts, and the job stays
   in the round. If slots that are coming back anyhow or capacity that is booting or could be launched in time will
   hold it, they are promised to it, and the job stays, too. Else the job is out for this decision: its later
   requests wait behind the first.
3. A request above its job's `max_slots`, or that could never be placed, says so and is not offered.

Nothing is ever asked to leave. Zero-slot tasks have places of their own, first in, first out.

The turns are those of Determined 0.33, the last that had this policy. There places were tested without reserving them,
`max_slots` was ignored, and zero-slot tasks shared the queue.
"""

from __future__ import annotations

from collections.abc import Iterator

from master.core.scheduler.decision_builder import DecisionBuilder
from master.core.scheduler.fitting import EXPECTED, REAL
from master.core.scheduler.ledger import JobBook, Wanted
from master.core.scheduler.types import Decision, PoolState
from master.core.scheduler.unplaced import explain_turns


def decide(pool: PoolState) -> Decision:
    builder = DecisionBuilder(pool)
    books = sorted(builder.books.values(), key=lambda book: (book.held + book.leaving, book.age))
    round_ = [(book, iter(book.waiting)) for book in books if book.waiting]
    while round_:
        round_ = [(book, rest) for book, rest in round_ if _take_turn(builder, book, rest)]
    builder.reasons |= explain_turns(pool, builder.ledger, books, builder.starts, builder.reasons)
    return builder.finish(builder.ledger.aux)


def _take_turn(builder: DecisionBuilder, book: JobBook, rest: Iterator[Wanted]) -> bool:
    """Whether the job stays in the round."""
    offered = next(rest, None)
    if offered is None:
        return False
    request, shape = offered
    if shape.slots > book.room - book.promised:
        return False
    placement = builder.find_free(shape)
    if placement is not None:
        builder.start(request, shape, placement)
        return True
    if builder.availability.is_anything_leaving and builder.promise(request, shape, REAL):
        return True
    return bool(builder.ledger.expected) and builder.promise(request, shape, EXPECTED)
