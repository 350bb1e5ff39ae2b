"""What the agent remembers on disk: epochs, container directories, leftovers; and what it refuses to write."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent_bootstrap.agent.connection.epoch import EpochMemory
from agent_bootstrap.agent.containers.directory import ContainerDirs, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.isolation import Isolation
from agent_bootstrap.agent.runtimes.task_tree import Ground, prepare
from agent_bootstrap.protocol import Bind, ContainerSpec, ExitFailure, FileItem, IsolationKind
from tests.jails import open_way_to
from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.processes import boot_id, start_time

NODE = NodeFacts(master_url="http://m:1", agent_id="a", cluster_id="c", master_id="m")
PRIVATE = Ground(isolation=Isolation(IsolationKind.NAMESPACES))


def spec(**changes: object) -> ContainerSpec:
    base: dict[str, object] = {
        "container_id": "c1",
        "allocation_id": "t.1",
        "task_id": "t",
        "task_type": "TRIAL",
        "entrypoint": ("true",),
        "environment": {"DET_SESSION_TOKEN": "s3cret"},
    }
    return ContainerSpec.model_validate(base | changes)


RECORD = ContainerRecord.of(spec()).model_dump_json().encode()


def item(path: str, content: bytes = b"x", mode: int = 0o600) -> FileItem:
    return FileItem(path=path, content_b64=base64.b64encode(content).decode(), mode=mode)


def prepared(tmp_path: Path, task: ContainerSpec, ground: Ground = PRIVATE) -> Path:
    dirs = ContainerDirs(tmp_path / "work")
    with dirs.locked():
        place = dirs.of(task.container_id)
        place.create(ContainerRecord.of(task))
        prepare(place, task, NODE, ground)
        return place.path


def test_an_epoch_once_seen_is_remembered(tmp_path: Path) -> None:
    memory = EpochMemory(tmp_path / "epoch.json")
    assert memory.admit(3)
    assert memory.admit(3)
    assert not memory.admit(2)
    assert not EpochMemory(tmp_path / "epoch.json").admit(2)
    assert EpochMemory(tmp_path / "epoch.json").highest == 3


def test_two_agents_cannot_share_a_directory(tmp_path: Path) -> None:
    with (
        ContainerDirs(tmp_path).locked(),
        pytest.raises(Conflict, match="--work-dir"),
        ContainerDirs(tmp_path).locked(),
    ):
        pass


def test_containers_are_found_again_and_leftovers_swept(tmp_path: Path) -> None:
    dirs = ContainerDirs(tmp_path)
    record = ContainerRecord.of(spec())
    with dirs.locked():
        dirs.of("c1").create(record)
        (tmp_path / "containers" / "half").mkdir()
        (tmp_path / "trash" / "old" / "deep").mkdir(parents=True)
        assert dirs.load() == [record]
        assert [path.name for path in (tmp_path / "containers").iterdir()] == ["c1"]
        dirs.remove("c1")
        dirs.remove("c1")
        assert dirs.load() == []
        assert list((tmp_path / "trash").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "Invalid JSON"),
        (b"", "Invalid JSON"),
        (RECORD.replace(b'"format":1', b'"format":2'), "it has format 2"),
        (RECORD.replace(b"c1", b"c2"), "it is of container c2"),
    ],
)
def test_what_cannot_be_read_is_ended_and_kept_aside(
    content: bytes, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dirs = ContainerDirs(tmp_path)
    code = (
        "import signal; signal.signal(signal.SIGRTMIN + 1, lambda *_: exit()); "
        "print(flush=True); signal.pause()"
    )
    with dirs.locked():
        place = dirs.of("c1")
        place.create(ContainerRecord.of(spec()))
        (place.path / "container.json").write_bytes(content)
        (place.path / "output.log").write_text("what it said")
        command = [sys.executable, "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
            assert supervisor.stdout is not None
            supervisor.stdout.readline()
            ticks = start_time(supervisor.pid)
            who = {"pid": supervisor.pid, "start_time": ticks, "boot_id": boot_id()}
            (place.path / "supervisor.json").write_text(json.dumps(who))
            assert dirs.load() == []
            assert supervisor.wait() == 0
        assert not place.path.exists()
        assert (tmp_path / "unreadable" / "c1" / "output.log").read_text() == "what it said"
    assert f"{place.path}/container.json cannot be read" in caplog.text
    assert why in caplog.text
    assert str(tmp_path / "unreadable") in caplog.text


def test_directories_that_their_owner_cannot_write_are_removed(tmp_path: Path) -> None:
    dirs = ContainerDirs(tmp_path)
    with dirs.locked():
        dirs.of("c1").create(ContainerRecord.of(spec()))
        locked = dirs.of("c1").path / "locked"
        (locked / "inner").mkdir(parents=True)
        locked.chmod(0o500)
        dirs.remove("c1")
        assert not dirs.of("c1").path.exists()
        assert list((tmp_path / "trash").iterdir()) == []


@pytest.mark.parametrize("bad", ["", "..", "a/b", ".hidden", "a\n"])
def test_ids_that_are_not_names_are_refused(tmp_path: Path, bad: str) -> None:
    with pytest.raises(InvalidArgument):
        ContainerDirs(tmp_path).of(bad)


def test_nothing_of_a_task_is_readable_by_others(tmp_path: Path) -> None:
    files = (item("/run/determined/ssh/id_rsa"), item("/etc/ssh/ssh_config", mode=0o644))
    path = prepared(tmp_path, spec(files=files))
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((path / "spec.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((path / "rundet/ssh").stat().st_mode) == 0o700
    assert (path / "rundet/ssh/id_rsa").read_bytes() == b"x"
    assert '"/etc/ssh/ssh_config"' in (path / "spec.json").read_text()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"entrypoint": ()}, "entrypoint is empty"),
        ({"work_dir": "relative"}, "absolute"),
        ({"files": (item("/run/determined/../../etc/passwd"),)}, "without .."),
        ({"files": (item("relative"),)}, "absolute"),
        ({"files": (FileItem(path="/run/determined/f", content_b64="?"),)}, "base64"),
        ({"binds": (Bind(source="/no/such", target="/data"),)}, "does not exist on this machine"),
        ({"binds": (Bind(source="here", target="/data"),)}, "absolute"),
        ({"binds": (Bind(source="/tmp", target="/"),)}, "not a usable container path"),
    ],
)
def test_what_the_user_asked_wrongly_is_the_users_error(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    with pytest.raises(StartRefused, match=told) as caught:
        prepared(tmp_path, spec(**changes))
    assert caught.value.failure is ExitFailure.TASK_ERROR


def test_the_storage_of_checkpoints_is_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    storage = open_way_to(tmp_path / "storage" / "deep")
    prepared(tmp_path, spec(binds=(Bind(source=str(storage), target="/determined_shared_fs"),)))
    assert storage.is_dir()


def test_a_full_disk_is_not_the_users_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "spec.json")

    monkeypatch.setattr("agent_bootstrap.agent.runtimes.task_tree.write_atomic", full)
    with pytest.raises(StartRefused, match="No space left") as caught:
        prepared(tmp_path, spec())
    assert caught.value.failure is ExitFailure.ABORTED
