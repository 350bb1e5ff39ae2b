"""The `pagination` object of list replies."""

from __future__ import annotations

from typing import Any

from master.store.paging import Paged


def pagination(paged: Paged[Any]) -> dict[str, int]:
    """The client goes on at `endIndex` until it reaches `total`."""
    return {
        "offset": paged.offset,
        "limit": paged.limit,
        "startIndex": paged.offset,
        "endIndex": min(paged.offset + paged.limit, paged.total),
        "total": paged.total,
    }
