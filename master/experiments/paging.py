"""Pages of long lists, as reads of experiments and the API use them: `master.store.paging`."""

from __future__ import annotations

from master.store.paging import (
    MAX_PAGE,
    Page,
    Paged,
    Row,
    Sorts,
    Statement,
    cut,
    in_order,
    place,
    read_page,
)

__all__ = [
    "MAX_PAGE",
    "Page",
    "Paged",
    "Row",
    "Sorts",
    "Statement",
    "cut",
    "in_order",
    "place",
    "read_page",
]
