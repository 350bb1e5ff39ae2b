"""Deletes files of checkpoints in this process: as `WorkerProcesses` does in others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from master.checkpoints.places import FolderHere
from windlass.storage import open_storage
from windlass.storage.worker import FolderResult, Order, deleted


@dataclass
class InlineDeleter:
    orders: list[Order] = field(default_factory=list)

    async def delete(
        self, order: Order, here: FolderHere | None
    ) -> AsyncGenerator[FolderResult, None]:
        self.orders.append(order)
        if here is not None:
            path = "/".join((here.root, *here.below))
            order = order.model_copy(
                update={"storage": {"type": "directory", "container_path": path}}
            )
        for folder in order.folders:
            yield deleted(open_storage(order.storage), folder, order.globs)


class NothingToDelete:
    """For simulations, whose trials write no files."""

    async def delete(
        self, order: Order, here: FolderHere | None
    ) -> AsyncGenerator[FolderResult, None]:
        for folder in order.folders:
            yield FolderResult(folder=folder)
