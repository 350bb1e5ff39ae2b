"""Whether a storage can be used: tried with one small file."""

from __future__ import annotations

import os
from contextlib import suppress

from windlass.base.errors import StorageError
from windlass.storage.base import Storage

_NAME, _CONTENT = "probe", b"written to see whether checkpoints can be stored\n"


def require_usable(storage: Storage) -> None:
    """Write, list, read and delete a small file. Raises StorageError, and leaves nothing behind."""
    folder = f"windlass-check-{os.urandom(16).hex()}"
    try:
        storage.write(folder, _NAME, _CONTENT)
        found = b"".join(storage.read(folder, _NAME))
        if found != _CONTENT or storage.files(folder) != {_NAME: len(_CONTENT)}:
            raise StorageError(f"{storage.where} does not hold what was just written to it")
    except BaseException:
        with suppress(StorageError):  # what got no answer may have arrived
            storage.delete(folder)
        raise
    storage.delete(folder)
