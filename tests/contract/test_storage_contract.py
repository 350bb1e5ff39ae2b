"""What every storage does alike: directories, S3, Google Cloud Storage and Azure."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import azurite
from tests.fakes.gcs_server import FakeGcs, gcs_server
from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, s3_client, s3_server
from windlass.base.errors import NotFound
from windlass.storage import CheckpointNotFound, Storage, list_files, open_storage, require_usable
from windlass.storage.buckets.object_transfers import PART, PARTS_AT_ONCE, RANGE

UNICODE = "Modell ünïcode 模型 100% #1?[x]&+=~.pt"


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture(scope="module")
def gcs() -> Iterator[FakeGcs]:
    with gcs_server() as gcs:
        yield gcs


@pytest.fixture(scope="module")
def azure_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if azurite.MISSING:
        pytest.skip(azurite.MISSING)
    with azurite.azurite(tmp_path_factory.mktemp("azurite")) as url:
        yield url


@pytest.fixture(params=["directory", "shared_fs", "s3", "gcs", "azure"])
def section(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """A `checkpoint_storage` section of each type; nothing lies there."""
    name = f"bucket-{os.urandom(6).hex()}"
    match request.param:
        case "gcs":
            server: FakeGcs = request.getfixturevalue("gcs")
            server.create(name)
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
            return {"type": "gcs", "bucket": name, "prefix": "some/where"}
        case "azure":
            account = request.getfixturevalue("azure_url")
            azurite.create_container(account, name)
            login = f"AccountName={azurite.ACCOUNT};AccountKey={azurite.KEY};BlobEndpoint={account}"
            return {"type": "azure", "container": name, "connection_string": login}
        case "directory":
            return {"type": "directory", "container_path": str(tmp_path / "stored")}
        case "shared_fs":
            return {"type": "shared_fs", "host_path": str(tmp_path), "storage_path": "stored"}
        case _:
            url = request.getfixturevalue("s3_url")
            s3_client(url).create_bucket(Bucket=name)
            keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "endpoint_url": url}
            return {"type": "s3", "bucket": name, "prefix": "some/where", **keys}


@pytest.fixture
def storage(section: dict[str, Any]) -> Storage:
    return open_storage(section)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    source = tmp_path / "model"
    (source / "code" / "deep").mkdir(parents=True)
    (source / "empty dir").mkdir()
    (source / "code" / "train.py").write_text("print()\n")
    (source / "code" / "deep" / UNICODE).write_bytes(os.urandom(100))
    (source / "weights.pt").write_bytes(os.urandom(9 * 1024 * 1024 + 3))
    (source / "zero").touch()
    return source


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


@pytest.mark.slow
def test_what_was_uploaded_comes_back(storage: Storage, model: Path, tmp_path: Path) -> None:
    storage.upload(model, "u")
    assert storage.files("u") == list_files(model)
    storage.download("u", tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(model)


@pytest.mark.slow
def test_some_files_are_moved_and_no_others(storage: Storage, model: Path, tmp_path: Path) -> None:
    storage.upload(model, "u", ["zero", "code/train.py", "empty dir/"])
    assert storage.files("u") == {"code/": 0, "code/train.py": 8, "empty dir/": 0, "zero": 0}
    storage.download("u", tmp_path / "copy", ["code/train.py"])
    assert tree(tmp_path / "copy") == {"code": None, "code/train.py": b"print()\n"}


@pytest.mark.slow
def test_one_file_is_read_in_pieces(storage: Storage, model: Path) -> None:
    storage.upload(model, "u")
    for name in ("weights.pt", "zero", f"code/deep/{UNICODE}"):
        assert b"".join(storage.read("u", name)) == (model / name).read_bytes()
    pieces = [len(piece) for piece in storage.read("u", "weights.pt")]
    assert max(pieces) <= 4 * 1024 * 1024


def test_a_small_file_is_written_and_replaced(storage: Storage) -> None:
    storage.write("u", "metadata.json", b"{}")
    storage.write("u", "metadata.json", b'{"steps_completed": 1}')
    assert b"".join(storage.read("u", "metadata.json")) == b'{"steps_completed": 1}'
    assert storage.files("u") == {"metadata.json": 22}


@pytest.mark.slow
def test_deleted_is_deleted_and_nothing_else_is(storage: Storage, model: Path) -> None:
    for folder in ("u", "uu", "u2", "tensorboard/u"):
        storage.upload(model, folder)
    assert storage.delete("u") == {}
    with pytest.raises(CheckpointNotFound):
        storage.files("u")
    for folder in ("uu", "u2", "tensorboard/u"):
        assert storage.files(folder) == list_files(model)
    assert storage.delete("u") == {}, "a delete may be repeated"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("globs", "gone"),
    [
        (["*.pt"], {"weights.pt"}),
        (["code"], {"code/", "code/train.py", "code/deep/", f"code/deep/{UNICODE}"}),
        (["code/*.py", "zero"], {"code/train.py", "zero"}),
        (["**/*.pt"], {"weights.pt", f"code/deep/{UNICODE}"}),
        (["empty dir/"], {"empty dir/"}),
        (["nothing*"], set()),
    ],
)
def test_globs_delete_what_they_name(
    storage: Storage, model: Path, globs: list[str], gone: set[str]
) -> None:
    storage.upload(model, "u")
    left = storage.delete("u", globs)
    kept = {name: size for name, size in list_files(model).items() if name not in gone}
    # A bucket forgets a directory with its last file.
    assert {n for n in kept if not n.endswith("/")} == {n for n in left if not n.endswith("/")}
    assert left.items() <= kept.items()
    assert ("empty dir/" in left) == ("empty dir/" not in gone)
    assert storage.files("u") == left


@pytest.mark.slow
def test_progress_ends_with_all_bytes(storage: Storage, model: Path, tmp_path: Path) -> None:
    total = sum(list_files(model).values())
    moves: list[Callable[[list[tuple[int, int]]], None]] = [
        lambda seen: storage.upload(model, "u", progress=lambda d, t: seen.append((d, t))),
        lambda seen: storage.download(
            "u", tmp_path / "c", progress=lambda d, t: seen.append((d, t))
        ),
    ]
    for move in moves:
        for _ in range(2):
            seen: list[tuple[int, int]] = []
            move(seen)
            assert seen[-1] == (total, total)
            assert seen == sorted(seen)


def test_what_is_no_checkpoint_is_not_found(storage: Storage, tmp_path: Path) -> None:
    require_usable(storage)
    for call in (storage.files, lambda folder: storage.download(folder, tmp_path / "copy")):
        with pytest.raises(CheckpointNotFound, match="checkpoint 'none' not found"):
            call("none")
    storage.write("some", "else", b"")
    for folder in ("none", "some"):
        with pytest.raises(NotFound, match="not found"):
            list(storage.read(folder, "file"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", ".", "..", "a/../b", "/etc", "a//b", "a/"])
def test_a_folder_is_a_plain_relative_path(storage: Storage, folder: str, tmp_path: Path) -> None:
    for call in (storage.files, storage.delete, lambda f: storage.write(f, "x", b"")):
        with pytest.raises(ValueError, match="not the name of a checkpoint"):
            call(folder)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thousands_of_files(storage: Storage, section: dict[str, Any], tmp_path: Path) -> None:
    # More than two pages of 1,000 (of the fake of Google 700); directories have none. Azurite deletes 30 in a second.
    count = {"azure": 400, "s3": 2_100, "gcs": 1_500}.get(section["type"], 1_000)
    source = tmp_path / "many"
    for number in range(count):
        path = source / f"part {number % 100}" / f"{number} ü.bin"
        if number < 100:
            path.parent.mkdir(parents=True)
        path.write_bytes(b"%d" % number)
    storage.upload(source, "u")
    assert storage.files("u") == list_files(source)
    storage.download("u", tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(source)
    left = storage.delete("u", ["part 1*"])
    assert sum(not name.endswith("/") for name in left) == count - 11 * count // 100
    assert storage.delete("u") == {}
    with pytest.raises(CheckpointNotFound):
        storage.files("u")


@pytest.mark.slow
@pytest.mark.timeout(600)
# moto copies the whole object for each range of it. Buckets have more than twice the parts that are sent at once.
@pytest.mark.parametrize(
    ("section", "size"),
    [
        ("directory", 2**32 + 1),
        ("gcs", (2 * PARTS_AT_ONCE + 4) * PART + 1),
        ("azure", (2 * PARTS_AT_ONCE + 4) * PART + 1),
    ],
    indirect=["section"],
)
def test_a_large_sparse_file(storage: Storage, tmp_path: Path, size: int) -> None:
    source, middle = tmp_path / "sparse", size // 2
    source.mkdir()
    with (source / "weights").open("wb") as file:
        for offset in (0, middle, size - 3):
            file.seek(offset)
            file.write(b"abc")
    before = peak_memory()
    storage.upload(source, "u")
    assert storage.files("u") == {"weights": size}
    storage.download("u", tmp_path / "copy")
    grown = peak_memory() - before
    status = (tmp_path / "copy" / "weights").stat()
    assert status.st_size == size
    assert status.st_blocks * 512 < 6 * RANGE, "it is sparse again"
    with (tmp_path / "copy" / "weights").open("rb") as file:
        for offset in (0, middle, size - 3):
            file.seek(offset)
            assert file.read(3) == b"abc"
    if storage.local_path("u") is not None:
        assert grown < 100 * 2**20
    storage.delete("u")


def peak_memory() -> int:
    """Of this process; servers that run in it count, too."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
