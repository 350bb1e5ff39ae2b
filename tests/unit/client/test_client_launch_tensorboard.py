"""What the launcher of TensorBoards does with the files, and what it starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windlass.base.errors import InvalidArgument
from windlass.launch.requirements import require_module
from windlass.launch.services.tensorboard import options
from windlass.launch.services.tensorboard_files import Files, Source, read_sources
from windlass.storage import LocalStorage

FOLDER = "cluster/tensorboard/experiment/3"


class Bucket(LocalStorage):
    """What lies there is no directory of the task's."""

    def local_path(self, folder: str) -> None:  # type: ignore[override]
        return None


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return tmp_path / "storage" / FOLDER / "trial" / "5"


def files_of(tmp_path: Path, kind: type[LocalStorage]) -> tuple[Files, Path]:
    (tmp_path / "storage").mkdir(exist_ok=True)
    shown = tmp_path / "shown"
    shown.mkdir()
    return Files([Source("experiment/3", FOLDER, kind(tmp_path / "storage"))], shown), shown


def test_files_of_a_directory_are_seen_as_they_are_also_when_they_come_later(
    tmp_path: Path, stored: Path
) -> None:
    files, shown = files_of(tmp_path, LocalStorage)
    assert not files.fetches
    assert not files.any()
    stored.mkdir(parents=True)
    (stored / "events").write_text("one")
    assert files.any()
    assert (shown / "experiment/3/trial/5/events").read_text() == "one"


def test_files_of_a_bucket_grow_in_place(tmp_path: Path, stored: Path) -> None:
    files, shown = files_of(tmp_path, Bucket)
    assert files.fetches
    assert files.fetch() == [], "an experiment that has written nothing yet is no problem"
    stored.mkdir(parents=True)
    (stored / "events").write_text("one")
    assert files.fetch() == []
    copy = shown / "experiment/3/trial/5/events"
    with copy.open() as reader:
        assert reader.read() == "one"
        (stored / "events").write_text("one,two")
        (stored / "more").write_text("")
        files.fetch()
        assert reader.read() == ",two", "whoever reads on sees what was added"
    assert (shown / "experiment/3/trial/5/more").exists()
    (stored / "events").write_text("new")
    files.fetch()
    assert copy.read_text() == "new"


def test_a_problem_is_told_once_and_again_after_it_was_gone(tmp_path: Path, stored: Path) -> None:
    files, _ = files_of(tmp_path, Bucket)
    top = tmp_path / "storage" / "cluster"
    top.write_text("not a directory")
    first = files.fetch()
    assert [line.partition(" of ")[0] for line in first] == [FOLDER]
    assert files.fetch() == []
    top.unlink()
    stored.mkdir(parents=True)
    assert files.fetch() == []


def test_sources_are_what_the_master_wrote(tmp_path: Path) -> None:
    mounted = tmp_path / "mounted"
    told = {
        "name": "experiment/3",
        "folder": FOLDER,
        "storage": {"type": "shared_fs", "host_path": "/srv", "storage_path": "below"},
        "mount": {"source": "/srv", "target": str(mounted)},
    }
    file = tmp_path / "sources.json"
    file.write_text(json.dumps({"sources": [told]}))
    assert read_sources(file)[0].storage.where == "/srv/below", "nothing can be mounted here"
    mounted.mkdir()
    assert read_sources(file)[0].storage.where == f"{mounted}/below"
    file.write_text("{}")
    with pytest.raises(InvalidArgument, match="is this a TensorBoard"):
        read_sources(file)


def test_arguments_of_the_user_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--port=1", "--samples_per_plugin=images=9"]
    monkeypatch.setenv("TENSORBOARD_ARGS", json.dumps(arguments))
    words = options("id", 2600, tmp_path)
    assert words[:2] == arguments
    assert words.index("--port=2600") > 1
    assert "--host=127.0.0.1" in words, "it asks nobody who they are"


def test_without_the_program_the_way_to_it_is_said() -> None:
    with pytest.raises(
        InvalidArgument, match=r"Nothing is not installed .*pip install no_such_one"
    ):
        require_module("python3", "no_such_one", "Nothing")
