"""What jobs may have at once within their shares, in the order in which it is served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from master.core.scheduler.fitting import Shape
from master.core.scheduler.ledger import JobBook
from master.core.scheduler.types import Request


class Claim(NamedTuple):
    """A waiting request within its job's share. Sorts in the order of service: `nth` makes the rest irrelevant."""

    smallness: int
    """Minus the slots."""
    freedom: int
    """Minus the agents it must not use: who has less choice chooses first."""
    part: float
    """How much of its share the job has when this claim and those before it are served."""
    age: int
    nth: int
    request: Request
    shape: Shape
    book: JobBook
    reach: int
    """`part` in slots."""


def claims_within(books: Mapping[str, JobBook], shares: Mapping[str, int]) -> list[Claim]:
    """Every job's next requests, by (requested, id), up to its share and `max_slots`. Large gangs first, then those
    with blocked agents; equal ones take turns between jobs, by how much of its share each has."""
    claims: list[Claim] = []
    for job_id, book in books.items():
        share, room, reach = shares[job_id], book.room, book.held
        for request, shape in book.waiting:
            if reach >= share:
                break
            after = reach + shape.slots
            if after <= share and after - book.held <= room:
                reach = after
                claims.append(
                    Claim(
                        -shape.slots,
                        -len(shape.blocked),
                        reach / share,
                        book.age,
                        len(claims),
                        request,
                        shape,
                        book,
                        reach,
                    )
                )
    claims.sort()
    return claims
