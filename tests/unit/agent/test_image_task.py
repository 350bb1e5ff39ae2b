"""A task in an image: what every engine is given, and what entry script and first process do in the image."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.image_task import ENTRY, ImageTask, prepare_image_task
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import ContainerOptions, OsUser
from agent_bootstrap.protocol import Bind, ContainerSpec, FileItem
from agent_bootstrap.supervisor.image_task import command, environment, out_of_memory
from tests.jails import open_way_to

NODE = NodeFacts(
    master_url="http://m:1",
    agent_id="a",
    cluster_id="c",
    master_id="m",
    proxies=(("HTTP_PROXY", "http://proxy"),),
)
ME = OsUser(uid=os.geteuid(), gid=os.getegid(), user="me", group="mine")
ANN = OsUser(uid=12345, gid=12346, user="ann", group="staff")
SOMEBODY = ANN if ME.uid == 0 else ME
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs tasks as others")


def spec(**changes: object) -> ContainerSpec:
    base: dict[str, object] = {
        "container_id": "c1",
        "allocation_id": "t.1",
        "task_id": "t",
        "task_type": "TRIAL",
        "entrypoint": ("{python}", "-P", "-m", "windlass.launch"),
        "environment": {"DET_SESSION_TOKEN": "s3cret"},
        "options": ContainerOptions(image="lab/torch:1"),
    }
    return ContainerSpec.model_validate(base | changes)


def prepared(
    tmp_path: Path,
    task: ContainerSpec,
    *,
    who: OsUser = SOMEBODY,
    rules: HostPaths | None = None,
    accounts: dict[str, str] | None = None,
) -> tuple[ImageTask, ContainerDir]:
    place = ContainerDir(tmp_path / "c1")
    place.path.mkdir(mode=0o700)
    own = rules or HostPaths(file="agent.yaml")
    return (
        prepare_image_task(place, task, NODE, own, who=who, accounts=accounts or {}),
        place,
    )


def document(place: ContainerDir) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place.path / "start" / "task.json").read_text())
    return found


def test_no_secret_is_with_the_engine(tmp_path: Path) -> None:
    task, place = prepared(tmp_path, spec())
    assert "s3cret" not in str(task.variables)
    assert "s3cret" not in str(task.entry)
    assert task.variables == {"DET_CONTAINER_ID": "c1"}
    assert document(place)["above"]["DET_SESSION_TOKEN"] == "s3cret"
    assert stat.S_IMODE((place.path / "start" / "task.json").stat().st_mode) == 0o600


def test_path_and_interpreter_are_the_images_own(tmp_path: Path) -> None:
    _, place = prepared(tmp_path, spec())
    told = document(place)
    assert not {"PATH", "PYTHONPATH"} & {*told["above"], *told["below"]}
    assert told["above"]["HOME"] == "/run/determined/workdir"
    assert told["above"]["DET_MASTER"] == "http://m:1"
    assert told["above"]["HTTP_PROXY"] == "http://proxy"
    assert told["below"]["LANG"] == "C.UTF-8"


def test_the_tree_comes_first_and_what_lies_in_another_comes_later(tmp_path: Path) -> None:
    open_way_to(tmp_path / "x")
    (tmp_path / "data").mkdir()
    file = FileItem(path="/etc/ssh/ssh_config", content_b64=base64.b64encode(b"x").decode())
    binds = (Bind(source=str(tmp_path / "data"), target="/run/determined/workdir/deep/data"),)
    task, place = prepared(tmp_path, spec(files=(file,), binds=binds))
    targets = [mount.target for mount in task.mounts]
    assert targets[:3] == ["/tmp", "/run/determined", "/opt/windlass/task"]
    assert targets.index("/run/determined/workdir/deep/data") > targets.index("/run/determined")
    assert {"/etc/ssh/ssh_config", "/etc/passwd", "/etc/group"} < set(targets)
    assert (place.rundet / "workdir" / "deep" / "data").is_dir()
    read_only = {mount.target for mount in task.mounts if mount.read_only}
    assert read_only > {"/opt/windlass/task", "/opt/windlass/windlass", "/etc/passwd"}


def test_a_mount_must_not_hold_what_every_task_is_given(tmp_path: Path) -> None:
    open_way_to(tmp_path / "x")
    with pytest.raises(StartRefused, match="container_path /opt holds /opt/windlass"):
        prepared(tmp_path, spec(binds=(Bind(source=str(tmp_path), target="/opt"),)))


def test_a_forbidden_folder_inside_a_mount_is_hidden(tmp_path: Path) -> None:
    data = open_way_to(tmp_path / "data")
    (data / "secret").mkdir(parents=True)
    rules = HostPaths(file="agent.yaml")
    options = ContainerOptions(
        image="i",
        host_paths=HostPaths(forbidden=(str(data / "secret"),), cluster=(str(data),)),
    )
    with pytest.raises(StartRefused, match="a folder of Windlass itself"):
        prepared(
            tmp_path,
            spec(options=options, binds=(Bind(source=str(data), target="/d"),)),
            rules=rules,
        )


def test_the_image_keeps_its_accounts_beside_the_tasks_own(tmp_path: Path) -> None:
    image = {"/etc/passwd": "root:x:0:0::/root:/bin/sh\nsshd:x:74:74::/:/bin/false\n"}
    _, place = prepared(
        tmp_path, spec(), who=OsUser(uid=ME.uid, gid=ME.gid, user="me"), accounts=image
    )
    lines = (place.path / "accounts" / "passwd").read_text().splitlines()
    assert lines[0] == f"me:x:{ME.uid}:{ME.gid}::/run/determined/workdir:/bin/sh"
    assert "sshd:x:74:74::/:/bin/false" in lines
    assert (place.path / "accounts" / "group").read_text().startswith("root:x:")


@needs_root
def test_what_the_task_writes_belongs_to_its_user(tmp_path: Path) -> None:
    task, place = prepared(tmp_path, spec(), who=ANN)
    owners = {
        name: (place.path / name).stat().st_uid
        for name in ("rundet", "rundet/workdir", "tmp", "start", "start/task.json")
    }
    assert set(owners.values()) == {ANN.uid}
    assert place.path.stat().st_uid == 0
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o700
    assert task.who == ANN


@pytest.mark.parametrize(
    ("work_dir", "home"),
    [("/tmp/x", "/tmp/x"), ("/workspace", "/run/determined/workdir")],
)
def test_home_is_writable_even_where_the_working_folder_is_the_images(
    work_dir: str, home: str, tmp_path: Path
) -> None:
    task, _ = prepared(tmp_path, spec(work_dir=work_dir))
    assert (task.work_dir, task.home) == (work_dir, home)


def test_variables_of_the_image_lie_between_ours() -> None:
    told = {
        "below": {"LANG": "C.UTF-8", "A": "1"},
        "above": {"HOME": "/h"},
        "packages": "/opt/windlass",
    }
    image = {"LANG": "de_DE", "HOME": "/root", "PATH": "/opt/conda/bin", "PYTHONPATH": "/image"}
    assert environment(image, told) == {
        "LANG": "de_DE",
        "A": "1",
        "HOME": "/h",
        "PATH": "/opt/conda/bin",
        "PYTHONPATH": "/image:/opt/windlass",
    }


def test_the_launcher_is_run_by_the_interpreter_of_the_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = ["{python}", "-P", "-m", "windlass.launch"]
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert command(launcher) == [sys.executable, "-m", "windlass.launch"]
    monkeypatch.setattr(sys, "version_info", (3, 11, 0))
    assert command(launcher) == [sys.executable, "-P", "-m", "windlass.launch"]
    assert command(["sh", "-P"]) == ["sh", "-P"]


def in_image(
    task: ImageTask, *words: str, path: str = "/usr/bin:/bin"
) -> tuple[subprocess.CompletedProcess[bytes], list[dict[str, Any]]]:
    """Run it with this machine as the image, and bubblewrap as the engine. What was told comes back."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("the program bwrap (package bubblewrap) is not installed")
    root = [word for name in ("usr", "bin", "lib", "lib64") for word in _shown(f"/{name}")]
    mounts = [
        word
        for mount in task.mounts
        for word in ("--ro-bind" if mount.read_only else "--bind", mount.source, mount.target)
    ]
    variables = [word for pair in task.variables.items() for word in ("--setenv", *pair)]
    engine = [bwrap, *root, "--proc", "/proc", "--dev", "/dev", *mounts, "--clearenv"]
    engine += ["--setenv", "PATH", path, *variables, "--", *task.entry, *words]
    told = Path(task.mounts[0].source).parent / "told"
    done = subprocess.run(
        ["sh", "-c", 'told=$1; shift; exec "$@" 3>"$told"', "sh", str(told), *engine],
        capture_output=True,
        check=False,
    )
    return done, [json.loads(line) for line in told.read_text().splitlines()]


def _shown(path: str) -> tuple[str, ...]:
    if Path(path).is_symlink():
        return ("--symlink", str(Path(path).readlink()), path)
    return ("--ro-bind", path, path) if Path(path).is_dir() else ()


def test_a_task_runs_as_the_image_and_its_configuration_say(tmp_path: Path) -> None:
    program = 'import os, windlass.core; print(os.environ["DET_SESSION_TOKEN"], os.getcwd(), os.environ["PATH"])'
    task, _ = prepared(tmp_path, spec(entrypoint=("{python}", "-P", "-c", program)))
    done, told = in_image(task, "env", "FROM_THE_IMAGE=1")
    assert done.stderr == b""
    assert done.stdout == b"s3cret /run/determined/workdir /usr/bin:/bin\n"
    assert told == [{"above": 0}, {"exit_code": 0}]


def test_an_image_without_python_is_told_in_one_sentence(tmp_path: Path) -> None:
    task, _ = prepared(tmp_path, spec())
    (tmp_path / "empty").mkdir()
    done, told = in_image(task, path="/nowhere")
    assert done.returncode == 125
    assert [said["failure"] for said in told] == ["task_error"]
    assert told[0]["message"].startswith("the image has no python3 in its PATH")


def test_a_working_folder_that_cannot_be_made_is_told_with_a_way_out(tmp_path: Path) -> None:
    task, _ = prepared(tmp_path, spec(work_dir="/usr/nothing/here"))
    _, told = in_image(task)
    assert told[0]["failure"] == "task_error"
    assert told[0]["message"].startswith("work_dir /usr/nothing/here: Read-only file system for")


def test_a_python_that_is_too_old_is_told(tmp_path: Path) -> None:
    task, _ = prepared(tmp_path, spec())
    old = tmp_path / "old"
    old.mkdir()
    code = "import sys; sys.version_info = (3, 6, 9); sys.argv = sys.argv[3:]; exec(open(sys.argv[0]).read())"
    (old / "python3").write_text(f"#!/bin/sh\nexec /usr/bin/python3 -c '{code}' \"$@\"\n")
    (old / "python3").chmod(0o755)
    shown = next(mount for mount in task.mounts if mount.target == "/tmp")
    shutil.copytree(old, Path(shown.source) / "bin")
    _, told = in_image(task, path="/tmp/bin:/usr/bin:/bin")
    assert told == [
        {
            "failure": "task_error",
            "message": "the image has Python 3.6: tasks need 3.10 or newer",
        }
    ]


def test_the_entry_is_a_shell_script_of_ours() -> None:
    assert ENTRY == ("/bin/sh", "/opt/windlass/agent_bootstrap/supervisor/image_entry.sh")


@pytest.mark.parametrize(
    ("counters", "says"),
    [
        ((0, 2**30), ""),
        ((1, 2**30), "used more memory than its limit of 1.00 GiB"),
        ((2, None), "used more memory than what the machine has"),
    ],
)
def test_a_kill_for_memory_is_told_apart(counters: tuple[int, int | None], says: str) -> None:
    told = out_of_memory(counters)
    assert told.endswith(says)
    assert bool(told) is bool(says)
