"""The languages of sorts: `column=asc|desc` of the published API, `[-]word` of people; comma-joined. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from master.experiments.finding import sources
from master.experiments.finding.columns import Kind, Table
from master.experiments.finding.sources import MAX_NAME_CHARS, Column, Source, short
from master.experiments.finding.words import source_of
from windlass.base.errors import InvalidArgument

MAX_SORTS = 20


@dataclass(frozen=True, slots=True)
class Sort:
    """Missing values come last in either direction."""

    source: Source
    descending: bool = False


def parse_sorts(text: str, table: Table) -> tuple[Sort, ...]:
    """Raises InvalidArgument."""
    if not text:
        return ()
    parts = text.split(",")
    if len(parts) > MAX_SORTS:
        raise InvalidArgument(f"sort: has {len(parts)} columns, more than {MAX_SORTS}")
    return tuple(_sort(part.strip(), table) for part in parts)


def parse_written_sorts(text: str, table: Table) -> tuple[Sort, ...]:
    """`-started,hp.lr`: descending after a minus. Raises InvalidArgument."""
    parts = [part.strip() for part in text.split(",")] if text else []
    if len(parts) > MAX_SORTS:
        raise InvalidArgument(f"sort: has {len(parts)} columns, more than {MAX_SORTS}")
    return tuple(_written_sort(part, table) for part in parts)


def _written_sort(part: str, table: Table) -> Sort:
    name = part.removeprefix("-")
    if not name or len(name) > MAX_NAME_CHARS or "\0" in name:
        raise InvalidArgument(f"sort: expected a word, or - and a word, not {short(part)}")
    try:
        source = source_of(table, name)
    except InvalidArgument as error:
        raise InvalidArgument(f"sort: {error.message}") from None
    return _ordered(Sort(source, descending=part.startswith("-")), name)


def _sort(part: str, table: Table) -> Sort:
    name, _, direction = part.rpartition("=")
    if not name or direction not in ("asc", "desc"):
        raise InvalidArgument(f"sort: expected <column>=asc or <column>=desc, not {short(part)}")
    if len(name) > MAX_NAME_CHARS or "\0" in name:
        raise InvalidArgument(
            f"sort: a column must have at most {MAX_NAME_CHARS} characters, none of them NUL"
        )
    try:
        source = sources.by_name(table, name)
    except InvalidArgument as error:
        raise InvalidArgument(f"sort: {error.message}") from None
    return _ordered(Sort(source, descending=direction == "desc"), name)


def _ordered(sort: Sort, name: str) -> Sort:
    if isinstance(sort.source, Column) and sort.source.kind is Kind.TAGS:
        raise InvalidArgument(f"sort: {name} is a list, which has no order")
    return sort
