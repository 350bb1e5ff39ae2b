"""The published package's storage managers read what ours wrote, and ours what they wrote; each deletes the other's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.fakes import azurite
from tests.fakes.gcs_server import gcs_server
from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, keys, s3_client, s3_server
from windlass.core._tensorboard import TensorboardFiles
from windlass.storage import CheckpointNotFound, Storage, list_files, open_storage

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".compat" / "bin" / "python"
PROGRAM = Path(__file__).parent / "published_storage.py"
BUCKET = "checkpoints"

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="the published client is not installed: run make test"
)
Keys: TypeAlias = Callable[[], list[str]]
"""All that is stored, if the server tells."""


@pytest.fixture(scope="module", params=["s3", "gcs", "azure", "shared_fs"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Any], Keys | None]]:
    folder = tmp_path_factory.mktemp("place")
    match request.param:
        case "s3":
            with s3_server() as url:
                client = s3_client(url)
                client.create_bucket(Bucket=BUCKET)
                login = {
                    "access_key": ACCESS_KEY,
                    "secret_key": SECRET_KEY,
                    "endpoint_url": url,
                }
                section = {"type": "s3", "bucket": BUCKET, "prefix": "/a//b/", **login}
                yield section, lambda: keys(client, BUCKET)
        case "gcs":
            with gcs_server() as server, pytest.MonkeyPatch.context() as patch:
                patch.setenv("STORAGE_EMULATOR_HOST", server.url)
                server.create(BUCKET)
                section = {"type": "gcs", "bucket": BUCKET, "prefix": "a/b"}
                yield section, lambda: server.keys(BUCKET)
        case "azure":
            if azurite.MISSING:
                pytest.skip(azurite.MISSING)
            with azurite.azurite(folder) as url:
                azurite.create_container(url, BUCKET)
                text = f"AccountName={azurite.ACCOUNT};AccountKey={azurite.KEY};BlobEndpoint={url};"
                text += "DefaultEndpointsProtocol=http"
                section = {"type": "azure", "container": BUCKET, "connection_string": text}
                yield section, None
        case _:
            yield {"type": "shared_fs", "host_path": str(folder), "storage_path": "a/b"}, None


@pytest.fixture
def section(place: tuple[dict[str, Any], Keys | None]) -> dict[str, Any]:
    return place[0]


@pytest.fixture
def ours(section: dict[str, Any]) -> Storage:
    return open_storage(section)


@pytest.fixture
def model(tmp_path: Path, section: dict[str, Any]) -> Path:
    # In parts, but for Google's client: of those it wants checksums that the fake does not make.
    size = 1_000_000 if section["type"] == "gcs" else 9_000_000
    source = tmp_path / "model"
    (source / "code" / "deep").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "code" / "train ü.py").write_text("print()\n")
    (source / "code" / "deep" / "none").touch()
    (source / "weights").write_bytes(os.urandom(size))
    return source


def published(section: dict[str, Any], *operations: object) -> str:
    command = [str(PYTHON), str(PROGRAM), json.dumps(section), *map(str, operations)]
    environment = {
        **os.environ,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AZURE_CORE_COLLECT_TELEMETRY": "0",
        # Google's client looks for the project of the machine otherwise.
        "GOOGLE_CLOUD_PROJECT": "tests",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


def test_it_reads_and_deletes_what_we_wrote(
    place: tuple[dict[str, Any], Keys | None], ours: Storage, model: Path, tmp_path: Path
) -> None:
    section, stored = place
    ours.upload(model, "of-ours")
    said = published(
        *(section, "download", "of-ours", tmp_path / "copy"),
        *("delete", "of-ours", json.dumps(["weights"])),
        *("delete", "of-ours", json.dumps(["**/*"])),
    )
    assert tree(tmp_path / "copy") == tree(model)
    left = json.loads(said.splitlines()[0])
    files = {name for name in left if not name.endswith("/")}
    assert files == {"code/train ü.py", "code/deep/none"}
    with pytest.raises(CheckpointNotFound):
        ours.files("of-ours")
    if stored is not None:
        assert stored() == []


def test_we_read_and_delete_what_it_wrote(
    place: tuple[dict[str, Any], Keys | None], ours: Storage, model: Path, tmp_path: Path
) -> None:
    section, stored = place
    published(section, "upload", "of-theirs", model)
    assert ours.files("of-theirs") == list_files(model)
    ours.download("of-theirs", tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(model)
    assert "weights" not in ours.delete("of-theirs", ["weights"])
    assert ours.delete("of-theirs") == {}
    with pytest.raises(CheckpointNotFound):
        ours.files("of-theirs")
    if stored is not None:
        assert stored() == [], "the empty objects of directories are gone, too"


def test_tensorboard_files_lie_in_the_same_place(
    section: dict[str, Any], ours: Storage, tmp_path: Path
) -> None:
    source = tmp_path / "events"
    (source / "profile").mkdir(parents=True)
    (source / "profile" / "x.pb").write_text("x")
    (source / "events.1").write_text("1")
    published(section, "tensorboard", "-", source)
    folder = "cluster/tensorboard/experiment/3/trial/7"
    theirs = ours.files(folder)
    assert {n for n in theirs if not n.endswith("/")} == {"profile/x.pb", "events.1"}
    ours.delete("cluster/tensorboard/experiment/3")
    files = TensorboardFiles(ours, ("cluster", 3, 7), "allocation", 0)
    files.directory = source
    files.sync()
    assert ours.files(folder) == {"profile/": 0, "profile/x.pb": 1, "events.1": 1}
    ours.delete("cluster")
