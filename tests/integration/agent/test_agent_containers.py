"""The life of containers on real processes, with and without namespaces."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from agent_processes import command_lines, eventually, gone, of_container, supervisor
from agent_scripted_master import ScriptedMaster, spec
from conftest import RunAgent

from agent_bootstrap.agent.runtimes import process, task_tree
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import (
    Bind,
    ContainerState,
    ExitFailure,
    FileItem,
    SignalContainer,
)
from agent_bootstrap.supervisor import task_init
from windlass.base.processes import ProcessName, is_running

SETSID_TREE = 'setsid sh -c "sleep 300; true" & setsid setsid sleep 300 & echo up; wait'


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -SEGV $$"), 139),
        (("sh", "-c", "kill -9 $$"), 137),
        (("no-such-program-here",), 127),
        (("/etc/passwd",), 126),
        (("{python}", "-c", "import windlass.base; raise SystemExit(5)"), 5),
    ],
)
async def test_the_exit_code_of_the_task_is_reported(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, argv: tuple[str, ...], code: int
) -> None:
    async with run_agent():
        await master.start(spec(cid, *argv))
        verdict = await master.exit_of(cid)
    assert (verdict.exit_code, verdict.failure) == (code, None)


async def test_a_program_that_is_missing_says_so_in_one_line(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    async with run_agent():
        await master.start(spec(cid, "no-such-program-here"))
        verdict = await master.exit_of(cid)
    assert master.text(cid) == ["no-such-program-here: No such file or directory"]
    assert verdict.message == "no-such-program-here: No such file or directory"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("-c", "import no_such_module"), "ModuleNotFoundError: No module named 'no_such_module'"),
        (("-c", "import sys; print('KeyError: 1', file=sys.stderr)"), ""),
        (("no-such-script.py",), "can't open file .*no-such-script.py"),
    ],
)
async def test_a_failure_says_the_last_exception_of_the_program(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, argv: tuple[str, ...], message: str
) -> None:
    async with run_agent():
        await master.start(spec(cid, "{python}", *argv))
        verdict = await master.exit_of(cid)
    assert re.search(message, verdict.message) if message else not verdict.message, verdict


async def test_all_output_is_shipped_before_the_exit_is_told(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    script = (
        "print(*range(30000), sep='\\n'); import sys; print('[rank=1] ERROR: e', file=sys.stderr)"
    )
    async with run_agent():
        await master.start(spec(cid, "{python}", "-c", script))
        await master.exit_of(cid)
        out = [entry.log for entry in master.lines[cid] if entry.stdtype == "stdout"]
        assert out == [str(n) for n in range(30000)]
        err = [entry for entry in master.lines[cid] if entry.stdtype == "stderr"]
        assert [(e.rank_id, e.level, e.log) for e in err] == [(1, "ERROR", "e")]


async def test_a_first_line_does_not_wait_for_the_second(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", "echo first; sleep 300"))
        await master.until_line(cid, "first")
        await master.kill(cid)
        assert (await master.exit_of(cid)).exit_code == 137


async def test_term_reaches_the_task(master: ScriptedMaster, run_agent: RunAgent, cid: str) -> None:
    script = "trap 'echo saving; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", script))
        await master.until_line(cid, "ready")
        await master.send(SignalContainer(epoch=1, container_id=cid, signal=int(signal.SIGTERM)))
        assert (await master.exit_of(cid)).exit_code == 3
        assert "saving" in master.text(cid)


async def test_a_kill_takes_the_whole_tree(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", SETSID_TREE))
        await master.until_line(cid, "up")
        await eventually(lambda: len(of_container(cid)) >= 4)
        who = supervisor(tmp_path / "work", cid)
        await master.kill(cid)
        verdict = await master.exit_of(cid)
        assert (verdict.exit_code, verdict.failure) == (137, None)
        assert of_container(cid) == []
        await gone(who["pid"], who["top_pid"], who["init_pid"])


async def test_nothing_is_left_when_the_task_ends_by_itself(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", "setsid setsid sleep 300 & exit 4"))
        assert (await master.exit_of(cid)).exit_code == 4
        assert of_container(cid) == []


@pytest.mark.parametrize("victim", ["pid", "top_pid", "init_pid"])
async def test_killing_any_process_above_the_task_ends_the_task(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path, victim: str
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", SETSID_TREE))
        await master.until_line(cid, "up")
        await eventually(lambda: len(of_container(cid)) >= 4)
        os.kill(supervisor(tmp_path / "work", cid)[victim], signal.SIGKILL)
        verdict = await master.exit_of(cid)
        lost_supervisor = victim == "pid"
        assert verdict.failure == (ExitFailure.AGENT_FAILED if lost_supervisor else None)
        assert verdict.exit_code == (None if lost_supervisor else 137)
        assert of_container(cid) == []


async def test_forgetting_removes_every_trace(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", "mkdir -m 500 d; echo x"))
        await master.exit_of(cid)
        place = tmp_path / "work" / "containers" / cid
        assert place.exists()
        await master.forget(cid)
        await eventually(lambda: not place.exists())
        await eventually(lambda: not list((tmp_path / "work" / "trash").iterdir()))


async def test_secrets_are_in_no_command_line_and_no_file_of_a_running_task(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path
) -> None:
    environment = {"DET_SESSION_TOKEN": "s3cret-of-the-task"}
    script = "print('up', flush=True); import time; time.sleep(300)"
    async with run_agent():
        await master.start(spec(cid, "{python}", "-c", script, environment=environment))
        await master.until_line(cid, "up")
        assert "s3cret-of-the-task" not in command_lines()
        place = tmp_path / "work" / "containers" / cid
        assert all(path.stat().st_mode & 0o077 == 0 for path in (place, *place.parents[:2]))
        for path in filter(Path.is_file, (tmp_path / "work").rglob("*")):
            assert path.stat().st_mode & 0o077 == 0
            assert b"s3cret-of-the-task" not in path.read_bytes()
        await master.kill(cid)
        await master.exit_of(cid)


async def test_files_and_the_shared_storage_are_where_the_task_looks(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path
) -> None:
    content = base64.b64encode(b"#!/bin/sh\necho from the file: $1\n").decode()
    script = FileItem(path="/run/determined/train/entrypoint.sh", content_b64=content, mode=0o744)
    storage = tmp_path / "storage"
    code = (
        "import os, pathlib; base = os.environ.get('WINDLASS_SHARED_FS', '/determined_shared_fs');"
        "pathlib.Path(base, 'checkpoint').write_text('weights');"
        "print(os.path.samefile('.', os.environ['DET_WORKDIR']), os.environ['HOME'] == os.getcwd())"
    )
    storage.mkdir()
    storage.chmod(0o777)
    bind = Bind(source=str(storage), target="/determined_shared_fs")
    allowed = ContainerOptions(host_paths=HostPaths(allowed=(str(tmp_path),)))
    async with run_agent():
        await master.start(
            spec(f"{cid}-f", "/run/determined/train/entrypoint.sh", "hello", files=(script,))
        )
        await master.start(spec(f"{cid}-s", "{python}", "-c", code, binds=(bind,), options=allowed))
        assert (await master.exit_of(f"{cid}-f")).exit_code == 0
        assert (await master.exit_of(f"{cid}-s")).exit_code == 0
    assert master.text(f"{cid}-f") == ["from the file: hello"]
    assert master.text(f"{cid}-s") == ["True True"]
    assert (storage / "checkpoint").read_text() == "weights"


@pytest.mark.parametrize("isolation", ["bubblewrap", "namespace"], indirect=True)
async def test_a_private_root(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path
) -> None:
    """Own /tmp and processes, binds anywhere without a trace on the host, read-only ones, files over the host's."""
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    (data / "x").write_text("in")
    content = base64.b64encode(b"Host *\n").decode()
    files = (FileItem(path="/etc/windlass-test/conf", content_b64=content, mode=0o644),)
    binds = (
        Bind(source=str(data), target="/mnt/windlass-test/data", read_only=True),
        Bind(source=str(data), target="/windlass-test/here"),
    )
    script = (
        "cat /etc/windlass-test/conf /mnt/windlass-test/data/x; echo; test -e /etc/passwd && "
        "touch /windlass-test/here/y && ls /tmp && ls -d /proc/[0-9]* | wc -l; "
        f"ls {tmp_path}/work/containers; "
        "touch /mnt/windlass-test/data/z || exit 9"
    )
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", script, files=files, binds=binds))
        assert (await master.exit_of(cid)).exit_code == 9
    out = [entry.log for entry in master.lines[cid] if entry.stdtype == "stdout"]
    assert out[:2] == ["Host *", "in"]
    assert int(out[-1]) <= 5
    assert sorted(path.name for path in data.iterdir()) == ["x", "y"]
    traces = [f"{parent}/windlass-test" for parent in ("", "/mnt", "/etc")]
    assert not any(map(os.path.lexists, traces))


@pytest.mark.skipif(os.geteuid() != 0, reason="an agent without rights mounts only as itself")
@pytest.mark.parametrize("isolation", ["bubblewrap", "namespace"], indirect=True)
async def test_a_link_put_into_the_shared_storage_after_the_check_is_not_followed(
    master: ScriptedMaster,
    run_agent: RunAgent,
    cid: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks write to the storage, and what is mounted of it is mounted with the agent's rights."""
    storage, closed = tmp_path / "storage", tmp_path / "closed"
    (storage / "mine").mkdir(parents=True)
    closed.mkdir(mode=0o700)
    (closed / "open").mkdir()
    (closed / "open" / "secret").write_text("s3cret")
    prepare = task_tree.prepare

    def swap(*arguments: Any) -> None:
        prepare(*arguments)
        (storage / "mine").rmdir()
        (storage / "mine").symlink_to(closed / "open")

    monkeypatch.setattr(process, "prepare", swap)
    bind = Bind(source=str(storage / "mine"), target="/mine")
    shared = ContainerOptions(host_paths=HostPaths(cluster=(str(storage),)))
    async with run_agent():
        task = spec(cid, "cat", "/mine/secret", binds=(bind,), options=shared)
        await master.start(task)
        verdict = await master.exit_of(cid)
    assert verdict.exit_code is None
    assert "s3cret" not in master.text(cid)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {
                "binds": (Bind(source="/no/such", target="/data"),),
                "options": ContainerOptions(host_paths=HostPaths(allowed=("/no",))),
            },
            "does not exist on this machine",
        ),
        ({"work_dir": "/no/such/dir"}, "work_dir /no/such/dir"),
    ],
)
async def test_what_cannot_be_set_up_is_the_users_error_and_says_why(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, changes: dict[str, object], told: str
) -> None:
    async with run_agent():
        await master.start(spec(cid, "true").model_copy(update=changes))
        verdict = await master.exit_of(cid)
        assert (verdict.exit_code, verdict.failure) == (None, ExitFailure.TASK_ERROR)
        assert told in verdict.message
        assert master.last(cid, ContainerState.RUNNING) is None or not of_container(cid)


@pytest.mark.parametrize("isolation", ["bubblewrap", "namespace"], indirect=True)
@pytest.mark.parametrize(
    ("targets", "told"),
    [
        (("/mnt/m", "/mnt/m/below"), "container_path /mnt/m holds /mnt/m/below"),
        (("/mnt/x/../m", "//mnt/m/below"), "container_path /mnt/m holds /mnt/m/below"),
        (("/etc",), "container_path /etc holds /etc/passwd"),
        (("/.host/proc",), "/.host/proc is not a usable container path"),
        (("/oldroot/etc",), "/oldroot/etc is not a usable container path"),
        (("/proc/self",), "/proc/self is not a usable container path"),
    ],
)
async def test_no_mount_lies_in_what_another_one_shows(
    master: ScriptedMaster,
    run_agent: RunAgent,
    cid: str,
    tmp_path: Path,
    targets: tuple[str, ...],
    told: str,
) -> None:
    """A link in the outer one would lead the inner one to any place of the machine's root."""
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    binds = tuple(Bind(source=str(data), target=target) for target in targets)
    async with run_agent():
        await master.start(spec(cid, "true", binds=binds))
        verdict = await master.exit_of(cid)
    assert verdict.failure is ExitFailure.TASK_ERROR
    assert told in verdict.message


@pytest.mark.parametrize("isolation", ["bubblewrap", "namespace"], indirect=True)
async def test_a_folder_that_is_exchanged_after_the_check_is_not_shown(
    master: ScriptedMaster,
    run_agent: RunAgent,
    cid: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
        folder.chmod(0o777)
    (other / "secret").write_text("s3cret")
    prepare = task_tree.prepare

    def swap(*arguments: Any) -> None:
        prepare(*arguments)
        mine.rmdir()
        mine.symlink_to(other)

    monkeypatch.setattr(process, "prepare", swap)
    bind = Bind(source=str(mine), target="/mine")
    async with run_agent():
        await master.start(spec(cid, "cat", "/mine/secret", binds=(bind,)))
        verdict = await master.exit_of(cid)
    assert verdict.exit_code is None
    assert "s3cret" not in master.text(cid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("isolation", ["bubblewrap", "namespace"], indirect=True)
async def test_what_lies_in_the_shared_storage_is_mounted_with_the_users_rights(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    (storage / "closed").mkdir(parents=True)
    storage.chmod(0o1777)
    (storage / "closed" / "weights").write_text("s3cret")
    (storage / "closed").chmod(0o700)
    bind = Bind(source=str(storage / "closed" / "weights"), target="/weights")
    shared = ContainerOptions(host_paths=HostPaths(cluster=(str(storage),)))
    async with run_agent():
        await master.start(spec(cid, "cat", "/weights", binds=(bind,), options=shared))
        verdict = await master.exit_of(cid)
    assert "is not accessible to task" in verdict.message
    assert "s3cret" not in master.text(cid)


CLINGS_TO_LIFE = """
import ctypes, os, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
os.write(3, b'{"above": 1}' + bytes([10]))
n = 0
while True:
    open("/tmp/alive", "w").write(str(n)); n += 1
    time.sleep(0.01)
"""


@pytest.mark.parametrize("isolation", ["bubblewrap"], indirect=True)
async def test_a_first_process_that_outlives_its_supervisor_is_ended(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path, work_dir: Path
) -> None:
    """Its user may mount a program of his own in the place of ours: it is still in his jail, and ends with it."""
    own = tmp_path / "first.py"
    own.write_text(CLINGS_TO_LIFE)
    own.chmod(0o644)
    bind = Bind(source=str(own), target=task_init.__file__)
    async with run_agent():
        await master.start(spec(cid, "true", binds=(bind,)))
        await master.until_state(cid, ContainerState.RUNNING)
        told = json.loads((work_dir / "containers" / cid / "supervisor.json").read_text())
        first = ProcessName(told["init_pid"], told["init_start_time"], told["boot_id"])
        assert is_running(first)
        os.kill(told["pid"], signal.SIGKILL)
        verdict = await master.exit_of(cid)
    assert verdict.failure is ExitFailure.AGENT_FAILED
    assert not is_running(first)


SHARED_MEMORY = (
    "import os; s = os.statvfs('/dev/shm'); print(s.f_blocks * s.f_frsize, os.listdir('/dev/shm'))\n"
    "from multiprocessing.shared_memory import SharedMemory\n"
    "m = SharedMemory(create=True, size=4096); m.buf[0] = 1; m.close(); m.unlink(); print('used')"
)


async def test_a_task_has_shared_memory_of_its_own_of_the_size_it_asked_for(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, isolation: str
) -> None:
    """Without namespaces there is only the machine's, and the agent says so."""
    options = ContainerOptions(shm_bytes=8 * 2**20)
    async with run_agent():
        await master.start(spec(cid, "{python}", "-c", SHARED_MEMORY, options=options))
        assert (await master.exit_of(cid)).exit_code == 0
    said = master.text(cid)
    assert said[-1] == "used"
    if isolation == "directory":
        assert "shm_size has no effect" in master.hellos[-1].notes[0]
    else:
        assert said[0] == f"{8 * 2**20} []"
