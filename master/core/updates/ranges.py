"""Sets of ids as live updates write them: ascending, runs as `a-b`, joined by commas."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from windlass.base.errors import InvalidArgument

MAX_ID = 2**63 - 1
_SPAN = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


@dataclass(frozen=True, slots=True)
class IdRanges:
    """Ascending, and never written out: somebody may say that they know a billion ids."""

    spans: tuple[tuple[int, int], ...] = ()
    """First and last of each."""

    def __contains__(self, id_: int) -> bool:
        place = bisect_right(self.spans, (id_, MAX_ID)) - 1
        return place >= 0 and id_ <= self.spans[place][1]

    def __str__(self) -> str:
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.spans)

    def minus(self, ids: Collection[int]) -> IdRanges:
        spans: list[tuple[int, int]] = []
        taken = iter(sorted(ids))
        out = next(taken, None)
        for first, last in self.spans:
            start = first
            while out is not None and out <= last:
                if out > start:
                    spans.append((start, out - 1))
                start = max(start, out + 1)
                out = next(taken, None)
            if start <= last:
                spans.append((start, last))
        return IdRanges(tuple(spans))


def ranges_of(ids: Iterable[int]) -> IdRanges:
    spans: list[tuple[int, int]] = []
    for id_ in sorted(ids):
        if spans and spans[-1][1] == id_ - 1:
            spans[-1] = (spans[-1][0], id_)
        elif not spans or spans[-1][1] < id_:
            spans.append((id_, id_))
    return IdRanges(tuple(spans))


def parse_ranges(text: str, *, field: str) -> IdRanges:
    """Raises InvalidArgument for what is not ascending, or names an id below 1."""
    spans: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        found = _SPAN.fullmatch(part)
        first = int(found[1]) if found else 0
        last = int(found[2] or found[1]) if found else 0
        before = spans[-1][1] if spans else 0
        if not before < first <= last <= MAX_ID:
            raise InvalidArgument(
                f'{field}: {part[:40]!r}: write ascending ids from 1 on, such as "1-4,7"'
            )
        spans.append((first, last))
    return IdRanges(tuple(spans))
