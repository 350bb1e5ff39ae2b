"""What goes wrong with a directory, in words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.base.errors import (
    StorageDenied,
    StorageError,
    StorageFull,
    StorageMissing,
    WindlassError,
)

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_ELSEWHERE = (errno.ELOOP, errno.ENOTDIR)


@contextmanager
def told(where: str) -> Iterator[None]:
    """Raises OSErrors of the block as StorageErrors; `where` is the storage, or the directory it is about."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, where) from error


def storage_error(error: OSError, where: str) -> WindlassError:
    place = f"{where}: {error.filename}" if error.filename and error.filename != where else where
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return StorageFull(f"{place}: {reason}: free space there, or use another storage")
    if error.errno in _DENIED:
        return StorageDenied(f"{place}: {reason}: give this user the right, or use another storage")
    if error.errno == errno.ENOENT:
        return StorageMissing(f"{place}: {reason}: is it mounted on this machine?")
    if error.errno in _ELSEWHERE:
        return StorageError(f"{place}: {reason}: it leads out of the storage and is left alone")
    return StorageError(f"{place}: {reason}")
