"""Where checkpoints and TensorBoard files lie: directories, S3, Google Cloud Storage and Azure behind one interface.

    storage = open_storage(config["checkpoint_storage"])
    storage.upload(Path("model"), checkpoint_id)
    storage.files(checkpoint_id)            # {"model.pt": 1048576, "code/": 0, "code/train.py": 812}

Training code, the CLI and the master use it. Buckets need the package obstore (extra `storage`), which is imported when
the first of them is opened. All calls block and may be made from several threads.
"""

from windlass.storage.base import (
    EVERYTHING,
    CheckpointNotFound,
    Selector,
    Storage,
    parents_of,
    selected,
)
from windlass.storage.local import LocalStorage
from windlass.storage.local_files import list_files
from windlass.storage.opening import open_storage, require_usable
from windlass.storage.patience import CHECKS, TRANSFERS, Patience
from windlass.storage.progress import Progress, progress_lines

__all__ = [
    "CHECKS",
    "EVERYTHING",
    "TRANSFERS",
    "CheckpointNotFound",
    "LocalStorage",
    "Patience",
    "Progress",
    "Selector",
    "Storage",
    "list_files",
    "open_storage",
    "parents_of",
    "progress_lines",
    "require_usable",
    "selected",
]
