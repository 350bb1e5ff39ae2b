"""Checkpoints of training code in a bucket: the same calls as with a directory, with copies in between."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_client_core_distributed import run_ranks

from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, s3_client, s3_server
from windlass import core
from windlass.base.errors import StorageError
from windlass.core._checkpoint import LocalReporter
from windlass.core._tensorboard import TensorboardFiles, TensorboardSync
from windlass.storage import Storage, open_storage


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with s3_server() as url:
        s3_client(url).create_bucket(Bucket="bucket")
        yield url


@pytest.fixture
def storage(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    section = {"type": "s3", "bucket": "bucket", "prefix": os.urandom(4).hex()}
    login = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "endpoint_url": url}
    return open_storage(section | login)


@pytest.fixture
def temporary(storage: Storage, tmp_path: Path) -> Path:
    return tmp_path / "tmp"


def context(dist: core.DistributedContext, storage: Storage) -> core.CheckpointContext:
    return core.CheckpointContext(dist, storage, LocalReporter(storage))


def alone(storage: Storage) -> core.CheckpointContext:
    return context(core.DummyDistributedContext(), storage)


def test_what_is_stored_is_restored_and_no_copy_stays(storage: Storage, temporary: Path) -> None:
    checkpoint = alone(storage)
    with checkpoint.store_path({"steps_completed": 3}) as (path, uuid):
        (path / "weights").write_text("w")
    assert storage.files(uuid) == {"metadata.json": 26, "weights": 1}
    assert checkpoint.get_metadata(uuid) == {"steps_completed": 3}
    with checkpoint.restore_path(uuid, selector=lambda name: name == "weights") as path:
        assert {p.name: p.read_text() for p in path.iterdir()} == {"weights": "w"}
        assert path.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []
    checkpoint.delete(uuid)
    with pytest.raises(core.CheckpointNotFound), checkpoint.restore_path(uuid):
        pass
    assert list(temporary.iterdir()) == []


def test_a_block_that_raises_stores_nothing(storage: Storage, temporary: Path) -> None:
    seen: list[str] = []

    def save() -> None:
        with alone(storage).store_path({"steps_completed": 1}) as (path, uuid):
            seen.append(uuid)
            (path / "half").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        save()
    with pytest.raises(core.CheckpointNotFound):
        storage.files(seen[0])
    assert list(temporary.iterdir()) == []


def test_an_upload_that_fails_leaves_nothing(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "model"
    source.mkdir()
    (source / "weights").write_text("w")
    written: list[str] = []

    def write(folder: str, name: str, data: bytes) -> None:
        assert storage.files(folder) == {"weights": 1}
        written.append(folder)
        raise StorageError("no more")

    monkeypatch.setattr(storage, "write", write)
    with pytest.raises(StorageError, match="no more"):
        alone(storage).upload(source, {"steps_completed": 1})
    with pytest.raises(core.CheckpointNotFound):
        storage.files(written[0])


@pytest.mark.parametrize("machines", [1, 2])
def test_a_sharded_checkpoint_has_the_files_of_all_ranks(
    storage: Storage, temporary: Path, machines: int
) -> None:
    def program(dist: core.DistributedContext) -> tuple[str, list[str]]:
        checkpoint = context(dist, storage)
        metadata = {"steps_completed": 3, "ranks": {str(dist.rank): True}}
        with checkpoint.store_path(metadata, shard=True) as (path, uuid):
            (path / f"shard{dist.rank}").write_text(str(dist.rank))
        with checkpoint.restore_path(uuid, selector=lambda n: n != f"shard{dist.rank}") as restored:
            return uuid, sorted(p.name for p in restored.iterdir())

    # Here two machines share their temporary folder: both upload what they find, which is equal.
    results = run_ranks(program, machines=machines, per_machine=2)
    (uuid,) = {uuid for uuid, _ in results}
    shards = [f"shard{rank}" for rank in range(len(results))]
    assert sorted(storage.files(uuid)) == ["metadata.json", *shards]
    for _, names in results:
        assert names == ["metadata.json", *shards]
    merged = {"steps_completed": 3, "ranks": {str(rank): True for rank in range(len(results))}}
    assert LocalReporter(storage).metadata(uuid) == merged
    assert list(temporary.iterdir()) == []


def test_a_rank_that_cannot_upload_fails_all(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(dist: core.DistributedContext) -> str:
        source = tmp_path / f"rank{dist.rank}"
        source.mkdir()
        (source / f"file{dist.rank}").touch()
        checkpoint = context(dist, storage)
        try:
            return checkpoint.upload(source, {"steps_completed": 1}, shard=True)
        except (StorageError, RuntimeError) as error:
            return str(error)

    original = storage.upload

    def upload(source: Path, folder: str, *args: Any, **options: Any) -> None:
        if source.name == "rank1":
            raise StorageError("disk on fire")
        original(source, folder, *args, **options)

    monkeypatch.setattr(storage, "upload", upload)
    first, second, third = run_ranks(program)
    assert second == "disk on fire"
    assert first == third
    assert "rank 1: StorageError: disk on fire" in first


def test_ranks_of_a_machine_hear_that_a_download_failed(storage: Storage, tmp_path: Path) -> None:
    def program(dist: core.DistributedContext) -> str:
        try:
            context(dist, storage).download("nothing", tmp_path / "copy")
        except (core.CheckpointNotFound, RuntimeError) as error:
            return str(error)
        return "downloaded"

    first, *others = run_ranks(program)
    assert first == "checkpoint 'nothing' not found"
    assert all(first in said for said in others)


def test_tensorboard_files_are_stored_when_they_change(storage: Storage, tmp_path: Path) -> None:
    files = TensorboardFiles(storage, ("cluster", 3, 7), "allocation", 0)
    folder = "cluster/tensorboard/experiment/3/trial/7"
    (files.directory / "run").mkdir(parents=True)
    (files.directory / "run" / "events").write_text("1")
    sync = TensorboardSync(files)
    sync.start()
    sync.look()
    sync.close()
    assert storage.files(folder) == {"run/": 0, "run/events": 1}
    storage.delete(folder)
    files.sync()
    with pytest.raises(core.CheckpointNotFound):
        storage.files(folder)
    (files.directory / "run" / "events").write_text("22")
    files.sync(mangler=lambda path, rank: path.with_name(f"{path.name}#{rank}"))
    assert storage.files(folder) == {"run/": 0, "run/events#0": 2}


def test_files_that_are_written_while_others_are_stored_are_not_forgotten(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TensorboardFiles(storage, ("cluster", 3, 9), "allocation", 2)
    files.directory.mkdir(parents=True)
    (files.directory / "first").write_text("1")
    original, busy, go_on = storage.upload_file, threading.Event(), threading.Event()

    def slow(source: Path, folder: str, name: str) -> None:
        busy.set()
        assert go_on.wait(30)
        original(source, folder, name)

    monkeypatch.setattr(storage, "upload_file", slow)
    sync = TensorboardSync(files)
    sync.start()
    sync.look()
    assert busy.wait(30)
    (files.directory / "second").write_text("22")
    monkeypatch.setattr(sync, "_thread", Released(sync._thread, go_on))
    sync.close()
    stored = storage.files("cluster/tensorboard/experiment/3/trial/9")
    assert stored == {"first": 1, "second": 2}


class Released:
    """A thread that may go on when somebody waits for its end."""

    def __init__(self, thread: threading.Thread, go_on: threading.Event) -> None:
        self.ident = thread.ident
        self._thread = thread
        self._go_on = go_on

    def join(self) -> None:
        self._go_on.set()
        self._thread.join()


def test_tensorboard_files_that_cannot_be_stored_do_not_end_training(
    storage: Storage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, folder: str, name: str) -> None:
        raise StorageError("bucket away")

    files = TensorboardFiles(storage, ("cluster", 3, 8), "allocation", 1)
    files.directory.mkdir(parents=True)
    (files.directory / "events").write_text("1")
    monkeypatch.setattr(storage, "upload_file", refuse)
    sync = TensorboardSync(files)
    sync.start()
    sync.close()
    assert "TensorBoard files are not stored: bucket away" in caplog.text
