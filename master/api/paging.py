"""The `pagination` object of list replies."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from master.store.paging import Paged


class Pagination(TypedDict):
    offset: int
    limit: int
    startIndex: int
    endIndex: int
    total: int


def pagination(paged: Paged[Any]) -> Pagination:
    """The client goes on at `endIndex` until it reaches `total`."""
    return {
        "offset": paged.offset,
        "limit": paged.limit,
        "startIndex": paged.offset,
        "endIndex": min(paged.offset + paged.limit, paged.total),
        "total": paged.total,
    }
