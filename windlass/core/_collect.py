"""A checkpoint collection on a node: `python -P -m windlass.core._collect`, the program of CHECKPOINT_GC tasks.

It deletes what its order names, as its user, tells the master what is left of each checkpoint, and ends with 1 if
something could not be deleted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from windlass.core._info import ClusterInfo
from windlass.core._session import TaskSession
from windlass.core._storage import SHARED_FS_CONTAINER_PATH, SHARED_FS_VARIABLE
from windlass.storage import open_storage
from windlass.storage.worker import Order, Result, deleted

ORDER_VARIABLE = "WINDLASS_ORDER_FILE"


def main() -> None:
    order = Order.model_validate_json(Path(os.environ[ORDER_VARIABLE]).read_bytes())
    session = TaskSession.for_task(ClusterInfo.from_env(os.environ))
    inside = Path(os.environ.get(SHARED_FS_VARIABLE) or SHARED_FS_CONTAINER_PATH)
    storage = open_storage(order.storage, shared_fs_at=inside)
    sys.stdout.write(f"Deleting {len(order.folders)} folders from {storage.where}\n")
    failed = False
    for folder in order.folders:
        result = deleted(storage, folder, order.globs)
        failed |= bool(result.error)
        sys.stdout.write(f"{folder}: {result.error or 'done'}\n")
        sys.stdout.flush()
        if not result.error and "/" not in folder:
            _tell(session, result)
    sys.exit(1 if failed else 0)


def _tell(session: TaskSession, result: Result) -> None:
    left = {name: str(size) for name, size in result.left.items()}
    change = {"uuid": result.folder, "resources": {"resources": left}}
    session.request("PATCH", "/api/v1/checkpoints", body={"checkpoints": [change]})


if __name__ == "__main__":
    main()
