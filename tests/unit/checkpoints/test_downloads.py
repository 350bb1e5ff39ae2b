"""How many archives the master packs at once, and for whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from master.allocations.identities import TaskOwner
from master.checkpoints.downloads import AT_ONCE, OF_ONE_USER, Downloads, TooManyDownloads, _Found
from master.checkpoints.places import CheckpointPlaces

OURS = {"type": "gcs", "bucket": "ours"}


class Packing(Downloads):
    """Of a checkpoint that is there, without a process."""

    def __init__(self) -> None:
        nothing: Any = None
        super().__init__(nothing, CheckpointPlaces(cluster=OURS))
        self._workers: Any = _Workers()

    async def _require(self, uuid: str) -> _Found:
        return _Found("COMPLETED", OURS, None, TaskOwner(1, 1), 1)


class _Workers:
    @asynccontextmanager
    async def archive(self, order: Any, here: Any) -> AsyncIterator[Any]:
        yield order


async def test_one_user_does_not_keep_all_others_from_downloading() -> None:
    downloads = Packing()
    async with AsyncExitStack() as slow:

        async def begin(by: int) -> None:
            await slow.enter_async_context(downloads.archive("u", "tar", owns=True, by=by))

        for _ in range(OF_ONE_USER):
            await begin(2)
        with pytest.raises(TooManyDownloads, match=f"{OF_ONE_USER} of them yours"):
            await begin(2)
        for _ in range(AT_ONCE - OF_ONE_USER):
            await begin(3)
        with pytest.raises(TooManyDownloads, match="0 of them yours"):
            await begin(4)
    async with downloads.archive("u", "tar", owns=True, by=2):
        pass
