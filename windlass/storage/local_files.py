"""Files below one open directory. Nothing is ever reached through a link that leads out of it.

Whoever may write to a checkpoint must not make its readers copy, or remove, what is elsewhere: every step goes from an
open directory to an entry of it, without following links. A link to a regular file below the same directory is read as
that file. Other links, devices, sockets and pipes are left alone.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import posixpath
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COPIED_AT_ONCE = 4 * 1024 * 1024
MOST_HOPS = 8
"""Links to links."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_IS_A_LINK = (errno.ELOOP, errno.EMLINK)
_NO_FAST_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
_RMTREE_TRIES = 5
"""NFS keeps a removed open file for a moment under another name, and so its directory."""


class NotAFile(OSError):
    """A link that leads elsewhere, a device, a socket or a pipe."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    name: str
    """With "/" at the end of a directory."""
    size: int
    readable: bool
    """False: a link that leads elsewhere, or no regular file."""


def list_files(root: Path) -> dict[str, int]:
    """Name -> size of everything below `root`; directories end in "/" and have size 0."""
    with opened(root) as top:
        return {entry.name: entry.size for entry in walk(top) if entry.readable}


@contextmanager
def opened(root: Path) -> Iterator[int]:
    """A descriptor of this directory; links on the way to it are its owner's business."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def entered(top: int, path: str, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the directory `path` below `top` ("" is `top` itself). `make`: with what is missing of it."""
    descriptor = os.dup(top)
    try:
        for name in filter(None, path.split("/")):
            if name in (".", ".."):
                raise NotAFile(errno.EINVAL, "leads out of its directory", path)
            if make:
                _make(name, descriptor)
            below = os.open(name, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def walk(top: int, prefix: str = "") -> Iterator[ListedFile]:
    """Everything below, sorted; a directory comes before what is in it."""
    with entered(top, prefix) as directory:
        with os.scandir(directory) as entries:
            found = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        for short, status in found:
            name = f"{prefix}{short}"
            if stat.S_ISDIR(status.st_mode):
                yield ListedFile(f"{name}/", 0, readable=True)
                yield from walk(top, f"{name}/")
            elif stat.S_ISREG(status.st_mode):
                yield ListedFile(name, status.st_size, readable=True)
            else:
                yield _behind_link(top, name)


def _behind_link(top: int, name: str) -> ListedFile:
    try:
        with open_file(top, name) as file:
            return ListedFile(name, os.fstat(file).st_size, readable=True)
    except OSError:
        return ListedFile(name, 0, readable=False)


@contextmanager
def open_file(top: int, name: str) -> Iterator[int]:
    """A descriptor of a regular file, for reading. Raises NotAFile."""
    descriptor = _open_regular(top, name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_regular(top: int, name: str) -> int:
    for _ in range(MOST_HOPS):
        head, _, last = name.rpartition("/")
        with entered(top, head) as directory:
            try:
                descriptor = os.open(last, _FILE, dir_fd=directory)
            except OSError as error:
                if error.errno not in _IS_A_LINK:
                    raise
                name = _target(name, os.readlink(last, dir_fd=directory))
                continue
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotAFile(errno.EINVAL, "is no regular file", name)
        return descriptor
    raise NotAFile(errno.ELOOP, "is a link to a link to a link", name)


def _target(name: str, text: str) -> str:
    """Where a link leads, relative to the top."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), text))
    if text.startswith("/") or target in (".", "..") or target.startswith("../"):
        raise NotAFile(errno.ELOOP, f"is a link that leads elsewhere, to {text}", name)
    return target


@contextmanager
def replacing(top: int, name: str, mode: int = 0o666) -> Iterator[int]:
    """A descriptor to write a file with, which takes the place of `name` when the block ends well."""
    head, _, last = name.rpartition("/")
    with entered(top, head, make=True) as directory:
        part = f".{os.urandom(8).hex()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, mode, dir_fd=directory)
        try:
            yield descriptor
            os.replace(part, last, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(part, dir_fd=directory)
            raise
        finally:
            os.close(descriptor)


def copy_file(source: int, target: int, name: str, done: Callable[[int], None]) -> None:
    """Copy between directories with mode and time. One of the same size and time is there already."""
    with open_file(source, name) as reader:
        status = os.fstat(reader)
        if not _is_there(target, name, status):
            copy_open_file(reader, target, name)
        done(status.st_size)


def copy_open_file(reader: int, target: int, name: str) -> None:
    status = os.fstat(reader)
    with replacing(target, name) as writer:
        copy_data(reader, writer, status.st_size)
        os.fchmod(writer, stat.S_IMODE(status.st_mode) & 0o777)
        os.utime(writer, ns=(status.st_atime_ns, status.st_mtime_ns))


def _is_there(top: int, name: str, wanted: os.stat_result) -> bool:
    found = status_of(top, name)
    return (
        found is not None
        and stat.S_ISREG(found.st_mode)
        and found.st_size == wanted.st_size
        and found.st_mtime_ns == wanted.st_mtime_ns
    )


def status_of(top: int, name: str) -> os.stat_result | None:
    """Of the entry itself, not of what a link leads to."""
    head, _, last = name.rpartition("/")
    try:
        with entered(top, head) as directory:
            return os.stat(last, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def copy_data(reader: int, writer: int, size: int) -> None:
    """Copy `size` bytes; holes of sparse files stay holes. Raises OSError if the file is shorter than that."""
    offset = 0
    while offset < size:
        start, end = _next_data(reader, offset, size)
        while start < end:
            start += _copy_some(reader, writer, start, end - start)
        offset = end
    os.ftruncate(writer, size)


def _next_data(reader: int, offset: int, size: int) -> tuple[int, int]:
    try:
        start = os.lseek(reader, offset, os.SEEK_DATA)
        return min(start, size), min(os.lseek(reader, start, os.SEEK_HOLE), size)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole follows
            return size, size
        return offset, size  # a file system that knows of no holes


def _copy_some(reader: int, writer: int, offset: int, count: int) -> int:
    copied = 0
    try:
        # On file systems that can, the storage itself copies.
        copied = os.copy_file_range(reader, writer, min(count, 2**30), offset, offset)
    except OSError as error:
        if error.errno not in _NO_FAST_COPY:
            raise
    except AttributeError:  # not on this system
        pass
    if copied == 0:
        copied = os.pwrite(writer, os.pread(reader, min(count, COPIED_AT_ONCE), offset), offset)
    if copied == 0:
        raise OSError(errno.EIO, "became shorter while it was copied")
    return copied


def make_directory(top: int, name: str) -> None:
    with entered(top, name, make=True):
        pass


def remove_file(top: int, name: str) -> None:
    head, _, last = name.rpartition("/")
    with entered(top, head) as directory:
        os.unlink(last, dir_fd=directory)


def remove_tree(top: int, path: str) -> None:
    """Remove a directory with all below it. One that is gone is fine; raises NotADirectoryError for a link."""
    head, _, last = path.rstrip("/").rpartition("/")
    with entered(top, head) as directory:
        if not stat.S_ISDIR(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is no directory", path)
        for attempt in range(1, _RMTREE_TRIES + 1):
            try:
                shutil.rmtree(last, dir_fd=directory)
                return
            except FileNotFoundError:
                if status_of(directory, last) is None:
                    return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY or attempt == _RMTREE_TRIES:
                    raise
            time.sleep(2**attempt / 100)


def _make(name: str, directory: int) -> None:
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        return


@contextmanager
def resumable(top: int, name: str, content: str) -> Iterator[tuple[int, int]]:
    """As `replacing`, but what was written stays for the next call if the block ends badly.

    Yields the descriptor and how many bytes are there already. `content` names the content: parts of another one are
    not gone on with. A full disk is left as it was found.
    """
    head, _, last = name.rpartition("/")
    with entered(top, head, make=True) as directory:
        part = f".{hashlib.sha256(f'{last} {content}'.encode()).hexdigest()[:16]}.part"
        descriptor = _lock_part(directory, part)
        if descriptor is None:  # somebody else downloads the same just now
            with replacing(top, name) as own:
                yield own, 0
            return
        try:
            yield descriptor, os.fstat(descriptor).st_size
            os.replace(part, last, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            os.unlink(part, dir_fd=directory)
            raise
        finally:
            os.close(descriptor)


def _lock_part(directory: int, part: str) -> int | None:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(part, flags, 0o666, dir_fd=directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it may have finished and renamed it meanwhile.
        now = os.stat(part, dir_fd=directory, follow_symlinks=False)
        if now.st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
