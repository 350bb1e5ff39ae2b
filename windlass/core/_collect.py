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
from windlass.core._storage import build_storage
from windlass.storage.worker import FolderResult, Order, deleted

ORDER_VARIABLE = "WINDLASS_ORDER_FILE"


def main() -> None:
    order = Order.model_validate_json(Path(os.environ[ORDER_VARIABLE]).read_bytes())
    session = TaskSession.for_task(ClusterInfo.from_env(os.environ))
    storage = build_storage(order.storage, on_cluster=True, environ=os.environ)
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


def _tell(session: TaskSession, result: FolderResult) -> None:
    left = {name: str(size) for name, size in result.left.items()}
    change = {"uuid": result.folder, "resources": {"resources": left}}
    session.request("PATCH", "/api/v1/checkpoints", body={"checkpoints": [change]})


if __name__ == "__main__":
    main()
