"""The storage of a task: what `checkpoint_storage` says, seen from where the task runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass.storage import Patience, Storage, open_storage
from windlass.storage.patience import TRANSFERS

SHARED_FS_CONTAINER_PATH = "/determined_shared_fs"
SHARED_FS_VARIABLE = "WINDLASS_SHARED_FS"
"""Set where tasks run without a mount namespace: the host directory that is `/determined_shared_fs` elsewhere."""


def build_storage(
    config: Mapping[str, Any] | str,
    *,
    on_cluster: bool,
    environ: Mapping[str, str],
    patience: Patience = TRANSFERS,
) -> Storage:
    """Of a `checkpoint_storage` section, or of a path or URL given to `core.init()`. Raises InvalidConfig."""
    inside = Path(environ.get(SHARED_FS_VARIABLE) or SHARED_FS_CONTAINER_PATH)
    return open_storage(config, shared_fs_at=inside if on_cluster else None, patience=patience)
