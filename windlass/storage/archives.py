"""A checkpoint as one archive, written piece by piece: memory does not grow with it."""

from __future__ import annotations

import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import BinaryIO, Literal, Protocol, TypeAlias

from windlass.base.errors import StorageError
from windlass.storage.base import Storage
from windlass.storage.names import require_distinct, utf8

Format: TypeAlias = Literal["tar", "tar.gz", "zip"]
Data: TypeAlias = bytes | bytearray | memoryview
CHUNK = 1024 * 1024
"""Bytes that are compressed or stored as it suits their content."""
STORED_BLOCK = 0xFFFF
SAMPLE = 16 * 1024
WORTH_IT = 0.85
"""Weights of a model shrink by a few percent at a tenth of the speed: they are stored as they are."""


class Sink(Protocol):
    def write(self, data: Data, /) -> int: ...


def checked_files(storage: Storage, folder: str, format_: Format) -> dict[str, int]:
    """What goes into the archive, by name.

    Raises CheckpointNotFound, and StorageError for a file nobody lets us read and for names that the format cannot keep
    apart.

    Each file is opened: once an archive is on its way, it is too late to refuse it.
    """
    files = storage.files(folder)
    if format_ == "zip":
        require_distinct(files)
    if storage.local_path(folder) is not None:
        for name, size in files.items():
            if size:
                next(iter(storage.read(folder, name)), b"")
    return files


def write_archive(
    storage: Storage, folder: str, files: Mapping[str, int], format_: Format, out: BinaryIO
) -> None:
    """`metadata.json` comes last: who unpacks has a whole checkpoint when it is there."""
    names = sorted(files, key=lambda name: (name == "metadata.json", name))
    if format_ == "zip":
        _write_zip(storage, folder, files, names, out)
    elif format_ == "tar":
        _write_tar(storage, folder, files, names, out)
    else:
        packed = Gzip(out)
        _write_tar(storage, folder, files, names, packed)
        packed.finish()
    out.flush()


def _write_tar(
    storage: Storage, folder: str, files: Mapping[str, int], names: list[str], out: Sink
) -> None:
    for name in names:
        info = tarfile.TarInfo(name.rstrip("/"))
        info.size = 0 if name.endswith("/") else files[name]
        info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
        info.mode = 0o755 if name.endswith("/") else 0o644
        out.write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        if info.isreg():
            _copy(storage, folder, name, files[name], out)
            out.write(b"\0" * (-files[name] % tarfile.BLOCKSIZE))
    out.write(b"\0" * 2 * tarfile.BLOCKSIZE)


def _write_zip(
    storage: Storage, folder: str, files: Mapping[str, int], names: list[str], out: BinaryIO
) -> None:
    now = datetime.now(UTC).timetuple()[:6]
    with zipfile.ZipFile(_Forward(out), "w", zipfile.ZIP_STORED) as archive:
        for name in names:
            info = zipfile.ZipInfo(utf8(name), now)
            is_folder = name.endswith("/")
            mode = stat.S_IFDIR | 0o755 if is_folder else stat.S_IFREG | 0o644
            info.external_attr = mode << 16 | (0x10 if is_folder else 0)
            if is_folder:
                archive.writestr(info, b"")
                continue
            with archive.open(info, "w", force_zip64=files[name] >= zipfile.ZIP64_LIMIT) as member:
                _copy(storage, folder, name, files[name], member)


def _copy(storage: Storage, folder: str, name: str, size: int, out: Sink) -> None:
    """Exactly `size` bytes: a file that changes meanwhile ends the archive."""
    done = 0
    for piece in storage.read(folder, name):
        done += len(piece)
        if done > size:
            break
        out.write(piece)
    if done != size:
        raise StorageError(f"{folder}/{name} has changed while it was read")


class Gzip:
    """One gzip member, each chunk of it compressed or stored as it suits (RFC 1951, 1952)."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._waiting = bytearray()
        self._crc = 0
        self._size = 0
        out.write(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff")

    def write(self, data: Data) -> int:
        self._waiting += data
        while len(self._waiting) >= CHUNK:
            self._chunk(self._waiting[:CHUNK])
            del self._waiting[:CHUNK]
        return len(data)

    def finish(self) -> None:
        self._chunk(self._waiting)
        last_block = b"\x03\x00"
        self._out.write(last_block + struct.pack("<LL", self._crc, self._size & 0xFFFFFFFF))

    def _chunk(self, content: bytearray) -> None:
        self._crc = zlib.crc32(content, self._crc)
        self._size += len(content)
        sample = content[:SAMPLE]
        if len(zlib.compress(sample, 1)) < WORTH_IT * len(sample):
            packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
            self._out.write(packer.compress(content))
            self._out.write(packer.flush(zlib.Z_SYNC_FLUSH))  # ends at a byte: others may follow
        else:
            for start in range(0, len(content), STORED_BLOCK):
                block = content[start : start + STORED_BLOCK]
                self._out.write(struct.pack("<BHH", 0, len(block), len(block) ^ 0xFFFF))
                self._out.write(block)


class _Forward:
    """What zipfile takes for a file that cannot go back: headers that are sent already stay as they are."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, data: Data) -> int:
        return self._out.write(data)

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        self.flush()
