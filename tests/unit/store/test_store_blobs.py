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


async def test_what_no_row_names_twice_is_deleted_and_nothing_else_is(
    blobs: BlobStore, tmp_path: Path
) -> None:
    gone, named = await blobs.put(b"gone"), await blobs.put(b"named")
    late, again = await blobs.put(b"late"), await blobs.put(b"again")
    (tmp_path / "blobs" / gone[:2] / "notes").write_text("somebody's")
    assert await blobs.remove_unnamed({named}) == 0
    assert await blobs.put(b"again") == again
    blobs.keep(late)
    assert await blobs.remove_unnamed({named}) == 1
    with pytest.raises(DataDamaged):
        await blobs.get(gone)
    assert await blobs.get(named) == b"named"
    assert (await blobs.get(late), await blobs.get(again)) == (b"late", b"again")
    assert await blobs.remove_unnamed({named, late}) == 1
    assert [path.name for path in files(tmp_path) if path.name == "notes"] == ["notes"]


@pytest.mark.parametrize("blob_id", ["", "x", "../../etc/passwd", "A" * 64, "a" * 63 + "/"])
async def test_an_odd_id_is_not_found(blobs: BlobStore, blob_id: str) -> None:
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
