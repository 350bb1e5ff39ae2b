"""One page of a long list: what is asked for, what is answered, and how a SELECT becomes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, TypeVarTuple

from sqlalchemy import Select, SQLColumnExpression, func

from master.store.store import Store
from windlass.base.errors import InvalidArgument

MAX_PAGE = 100_000
"""Rows of one answer, whatever `limit` says."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Sorts: TypeAlias = Mapping[str, SQLColumnExpression[Any]]
"""What a list can be sorted by, in words of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`limit` None: everything. A negative offset counts from the end."""

    offset: int = 0
    limit: int | None = None
    descending: bool = False
    sort: str = "id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paged(Generic[T]):
    """One page with what the wire's `pagination` object needs."""

    rows: Sequence[T]
    total: int
    offset: int
    limit: int


async def read_page(
    store: Store,
    statement: Select[*Ts],
    row: Callable[[*Ts], T],
    sorts: Sorts,
    page: Page,
    tie: SQLColumnExpression[Any],
) -> Paged[T]:
    """Two queries: how many, and the page. `tie` orders rows that sort alike."""
    # Of the same joins and conditions, but without computing what the rows would show.
    counted = statement.with_only_columns(func.count(), maintain_column_froms=True)
    total = await store.read_one(counted) or 0
    offset, limit = place(page, total)
    ordered = in_order(statement, sorts, page, tie)
    rows = await store.read(ordered.offset(offset).limit(min(limit, MAX_PAGE)), row)
    return Paged(rows=rows, total=total, offset=offset, limit=limit)


def in_order(
    statement: Select[*Ts], sorts: Sorts, page: Page, tie: SQLColumnExpression[Any]
) -> Select[*Ts]:
    """Nulls last in either direction. Raises InvalidArgument for an unknown word."""
    key = sorts.get(page.sort)
    if key is None:
        raise InvalidArgument(f'cannot sort by "{page.sort}"; use one of {", ".join(sorts)}')
    if page.descending:
        return statement.order_by(key.desc().nulls_last(), tie.desc())
    return statement.order_by(key.asc().nulls_last(), tie.asc())


def cut(items: Sequence[T], page: Page) -> Paged[T]:
    """The page of a list that is in memory, in its own order."""
    offset, limit = place(page, len(items))
    return Paged(rows=items[offset : offset + limit], total=len(items), offset=offset, limit=limit)


def place(page: Page, total: int) -> tuple[int, int]:
    """Offset and limit in effect."""
    offset = max(0, total + page.offset) if page.offset < 0 else page.offset
    if offset > total:
        raise InvalidArgument(f"offset out of bounds: {offset} of {total}")
    if page.limit is not None and page.limit < 0:
        raise InvalidArgument(f"limit must not be negative, but is {page.limit}")
    return offset, total if page.limit is None else page.limit
