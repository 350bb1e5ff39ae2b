"""The welcome of a notebook: what it says, whose files it leaves alone, and that to read it is no use."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from master.core.expconf.kinds import NotebookConfig
from windlass.launch.services.idle_reports import Jupyter
from windlass.launch.services.idleness import Usage
from windlass.launch.services.notebook import options
from windlass.launch.services.notebook_settings import NotebookSettings
from windlass.launch.services.welcome import README, Welcome, write_welcome


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DET_RUN_DIR", str(tmp_path))
    work_dir = tmp_path / "workdir"
    work_dir.mkdir()
    return work_dir


def written(folder: Path, **settings: Any) -> Welcome:
    welcome = write_welcome(folder, "task-7", NotebookSettings(**settings))
    assert welcome is not None
    return welcome


def text_of(welcome: Welcome) -> str:
    (cell,) = json.loads(welcome.file.read_text())["cells"]
    assert cell["cell_type"] == "markdown"
    return str(cell["source"])


def test_it_says_where_files_are_what_is_kept_and_when_it_ends(folder: Path) -> None:
    welcome = written(
        folder, idle_type="activity", idle_timeout=timedelta(minutes=30), kept=("/data", "sub")
    )
    text = text_of(welcome)
    for said in (f"`{folder}`", "`/data`, `sub`", "used for 30m", "no kernel computes", "task-7"):
        assert said in text
    assert "Time" not in text
    for said in ("This task ends at noon", "This task ends at ten"):
        welcome.tell_end(said)
        assert f"{said}." in text_of(welcome)


def test_one_that_keeps_nothing_and_is_never_ended_says_that(folder: Path) -> None:
    text = text_of(written(folder))
    assert "no folder of yours is mounted" in text
    assert "holds its slots until" in text


def test_it_is_what_jupyterlab_shows_first(folder: Path) -> None:
    jupyter = Jupyter(task_id="t", port=1, token="")
    shown = [option for option in options(jupyter, written(folder)) if "default_url" in option]
    assert shown == [f"--LabApp.default_url=/lab/tree{folder}/README.ipynb"]
    assert not any("default_url" in option for option in options(jupyter, None))


def test_files_of_users_are_left_alone(folder: Path, tmp_path: Path) -> None:
    (folder / README).write_text("theirs")
    assert write_welcome(folder, "task-7", NotebookSettings()) is None
    assert (folder / README).read_text() == "theirs"
    theirs = tmp_path.parent / f"{tmp_path.name}-mounted"
    theirs.mkdir()
    assert write_welcome(theirs, "task-7", NotebookSettings()) is None
    assert list(theirs.iterdir()) == []


def test_when_it_ends_is_not_written_over_what_somebody_changed(folder: Path) -> None:
    welcome = written(folder)
    welcome.file.write_text("theirs now")
    welcome.tell_end("This task ends at noon")
    assert welcome.file.read_text() == "theirs now"
    welcome.file.unlink()
    welcome.tell_end("This task ends at noon")
    assert not welcome.file.exists()


def test_its_kernel_does_not_count_until_somebody_works_in_it(folder: Path) -> None:
    welcome = written(folder)
    path = str(welcome.file).removeprefix("/")
    shown = {"path": path, "kernel": {"id": "a"}}
    other = {"path": "other.ipynb", "kernel": {"id": "b"}}
    usage = Usage(kernels=[{"id": "a"}, {"id": "b"}], sessions=[shown, other])
    assert welcome.counted(usage) == Usage(kernels=[{"id": "b"}], sessions=[other])
    notebook = json.loads(welcome.file.read_text())
    notebook["cells"].append({"cell_type": "code", "source": "x = 1"})
    welcome.file.write_text(json.dumps(notebook))
    assert welcome.counted(usage) == usage
    welcome.file.unlink()
    assert welcome.counted(usage) == usage


def test_settings_are_read_as_the_master_writes_them() -> None:
    mounts = [
        {"host_path": "/srv/ann", "container_path": "/data"},
        {"host_path": "/srv/all", "container_path": "/all", "read_only": True},
    ]
    document = {"description": "mine", "idle_timeout": "1h30m", "bind_mounts": mounts}
    config = NotebookConfig.model_validate(document | {"notebook_idle_type": "activity"})
    assert NotebookSettings.from_config(json.dumps(config.to_json())) == NotebookSettings(
        description="mine",
        idle_type="activity",
        idle_timeout=timedelta(minutes=90),
        kept=("/data",),
    )
    never = NotebookConfig.model_validate({"description": "mine"}).to_json()
    assert NotebookSettings.from_config(json.dumps(never)).idle_timeout == timedelta(0)
