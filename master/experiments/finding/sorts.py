"""The language of sorts: `column=asc|desc`, comma-joined. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from master.experiments.finding import sources
from master.experiments.finding.columns import Kind, Table
from master.experiments.finding.sources import MAX_NAME_CHARS, Column, Source, short
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
    if isinstance(source, Column) and source.kind is Kind.TAGS:
        raise InvalidArgument(f"sort: {name} is a list, which has no order")
    return Sort(source, descending=direction == "desc")
