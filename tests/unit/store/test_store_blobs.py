"""Blobs are stored once, whole, and for the master's eyes only."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from master.store.blobs import BlobStore
from windlass.base.errors import DataDamaged, NotFound, StoreUnavailable


@pytest.fixture(params=[False, True], ids=["threads", "inline"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs", inline=request.param)


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


async def test_content_comes_back_by_its_hash(blobs: BlobStore) -> None:
    content = os.urandom(100_000)
    blob_id = await blobs.put(content)
    assert blob_id == hashlib.sha256(content).hexdigest()
    assert await blobs.get(blob_id) == content


async def test_the_same_content_is_one_private_file(blobs: BlobStore, tmp_path: Path) -> None:
    assert await blobs.put(b"x") == await blobs.put(b"x")
    (file,) = files(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o077 == 0


async def test_deleted_is_missing_and_may_be_deleted_again(blobs: BlobStore) -> None:
    blob_id = await blobs.put(b"x")
    await blobs.delete(blob_id)
    await blobs.delete(blob_id)
    with pytest.raises(DataDamaged):
        await blobs.get(blob_id)


@pytest.mark.parametrize("blob_id", ["", "x", "../../etc/passwd", "A" * 64, "a" * 63 + "/"])
async def test_an_odd_id_is_not_found(blobs: BlobStore, blob_id: str) -> None:
    await blobs.delete(blob_id)
    with pytest.raises(NotFound):
        await blobs.get(blob_id)


async def test_a_full_disk_leaves_nothing_behind(
    blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreUnavailable, match="No space left"):
            await blobs.put(b"content")
    assert files(tmp_path) == []
    assert await blobs.get(await blobs.put(b"content")) == b"content"
