"""A bucket that keeps only the sizes of its objects and serves one random block for all of them.

It needs no memory for what is uploaded and hardly any CPU, so that clients can be measured with objects of any size.
Runs until its standard input ends; the first line of its output is its URL.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from tests.fakes.gcs_server import Bucket, Handler, Stored, gcs_server

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 2**20
BLOCK = memoryview(os.urandom(8 * MIB))


class Sized:
    """Stands for that many bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


class SizesOnly(Handler):
    def _body(self) -> bytes:
        left = int(self.headers.get("Content-Length") or 0)
        if left < MIB:
            return self.rfile.read(left)
        buffer = memoryview(bytearray(MIB))
        while left > 0 and (count := self.rfile.readinto(buffer[: min(left, MIB)])):
            left -= count
        return cast("bytes", Sized(int(self.headers["Content-Length"])))

    def _answer(
        self,
        status: int,
        data: bytes | memoryview = b"",
        headers: dict[str, str] | None = None,
    ) -> None:
        if not isinstance(data, Sized):
            super()._answer(status, data, headers)
            return
        command, self.command = self.command, "HEAD"  # the headers alone
        super()._answer(status, data, headers)
        self.command = command
        left = 0 if command == "HEAD" else len(data)
        while left > 0:
            left -= self.wfile.write(BLOCK[:left])

    def _range(self, data: bytes, start: int, end: int) -> bytes | memoryview:
        if isinstance(data, Sized):
            return cast("bytes", Sized(end - start))
        return super()._range(data, start, end)


class SizesBucket(Bucket):
    def put(self, key: str, data: bytes) -> Stored:
        stored = self.objects[key] = Stored(data, datetime.now(UTC), f"tag-{len(data)}")
        return stored

    def joined(self, parts: Sequence[bytes]) -> bytes:
        return cast("bytes", Sized(sum(map(len, parts))))


if __name__ == "__main__":
    with gcs_server(SizesOnly) as server:
        server.buckets["bucket"] = SizesBucket()
        print(server.url, flush=True)
        sys.stdin.read()
