"""A task that attacks its machine, in every way of containing it: each row of `containment/` must hold."""

from __future__ import annotations

import base64
import ctypes
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.identity import UNPRIVILEGED
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import Bind, ContainerSpec, FileItem
from tests.jails import open_way_to, works_or_skip

HERE = Path(__file__).parent
ORDINARY = 41007
SCRIPTS = "/run/determined/containment"
SHM_BYTES = 16 * 2**20
SECRET = "SECRET_OF_THE_NEIGHBOUR"
JAILS = [(agent, way) for agent in ("root", "ordinary") for way in ("bubblewrap", "namespace")]
IPC_PRIVATE, IPC_RMID = 0, 0
ROWS = 150


class Machine:
    """What of this machine a task must not reach, and what its configuration gives it."""

    def __init__(self, folder: Path, uid: int, stack: ExitStack) -> None:
        open_way_to(folder / "x")
        self.folder, self._uid, self._stack = folder, uid, stack
        self.work_dir = self._own_folder("agent")
        self.data = self._own_folder("mine", 0o777)
        self.read_only = self._own_folder("read-only")
        self.storage = self._own_folder("storage", 0o777)
        (self.read_only / "file").write_text("in")
        for path in ("agent/credential", "agent/join-token", "master.db"):
            self._secret_file(path)
        self.server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.abstract = f"windlass-test-{os.getpid()}-{uid}-{id(self)}"
        self._listen("\0" + self.abstract)
        self.socket = f"/tmp/wl-test-{os.getpid()}-{id(self):x}.sock"
        self._listen(self.socket)
        stack.callback(os.unlink, self.socket)
        Path(self.socket).chmod(0o777)
        self.shm_id = self._shared_memory()
        self.shm_file = Path(f"/dev/shm/wl-test-{os.getpid()}-{id(self):x}")
        self.shm_file.write_text("secret")
        self.shm_file.chmod(0o666)
        stack.callback(self.shm_file.unlink)
        # Somebody else's program, under the very user that the task has.
        self.stranger = subprocess.Popen(
            ["sleep", "600"],
            env={"X": "SECRET_OF_A_STRANGER"},
            user=uid,
            group=uid,
            extra_groups=[],
        )
        stack.callback(self.stranger.wait)
        stack.callback(self.stranger.kill)

    def facts(self, *, ids: tuple[int, int], user: str) -> dict[str, Any]:
        resolver = os.path.realpath("/etc/resolv.conf").split("/")
        return {
            "secret_paths": {
                "the agent's credential": f"{self.work_dir}/credential",
                "the join token": f"{self.work_dir}/join-token",
                "the neighbour's specification": f"{self.work_dir}/containers/neighbour/container.json",
                "the neighbour's output": f"{self.work_dir}/containers/neighbour/output.log",
                "its own exit record": f"{self.work_dir}/containers/probe/exit.tmp",
                "the master's database": f"{self.folder}/master.db",
                "shared memory of the machine": str(self.shm_file),
                "the password of root's shell": "/root/.bash_history",
            },
            "hidden_folders": {
                "the agent's folder": str(self.work_dir),
                "the neighbour's folder": f"{self.work_dir}/containers/neighbour",
                "the host's root": "/.host",
            },
            "pids": {
                "the agent": os.getpid(),
                "the machine's process 2": 2,
                "a stranger": self.stranger.pid,
            },
            "checkout": str(HERE.parents[2]),
            "ids": ids,
            "user": user,
            "devices": [],
            "resolvers": resolver[2:3] if resolver[1] == "run" else [],
            "socket": self.socket,
            "abstract": self.abstract,
            "shm_id": self.shm_id,
            "shm_bytes": SHM_BYTES,
            "port": self.server.getsockname()[1],
            "torch": importlib.util.find_spec("torch") is not None,
        }

    def spec(self, facts: dict[str, Any]) -> ContainerSpec:
        given = base64.b64encode(b"given").decode()
        scripts = {
            f"{SCRIPTS}/{path.name}": base64.b64encode(path.read_bytes()).decode()
            for path in (HERE / "containment").glob("*.py")
        }
        master = HostPaths(
            cluster=(str(self.storage),), forbidden=(str(self.folder / "master.db"),)
        )
        return ContainerSpec(
            container_id="probe",
            allocation_id="probe.1",
            task_id="probe",
            task_type="COMMAND",
            entrypoint=("{python}", f"{SCRIPTS}/probe.py", json.dumps(facts)),
            environment={},
            files=(
                *(FileItem(path=path, content_b64=text) for path, text in scripts.items()),
                FileItem(path="/run/determined/given", content_b64=given),
                FileItem(path="/etc/windlass-test/given", content_b64=given),
            ),
            binds=(
                Bind(source=str(self.data), target="/mnt/mine"),
                Bind(source=str(self.read_only), target="/mnt/read-only", read_only=True),
                Bind(source=str(self.storage), target="/storage"),
            ),
            options=ContainerOptions(shm_bytes=SHM_BYTES, host_paths=master),
        )

    def _own_folder(self, name: str, mode: int = 0o755) -> Path:
        path = self.folder / name
        path.mkdir()
        path.chmod(mode)
        os.chown(path, self._uid, self._uid)
        return path

    def _secret_file(self, name: str) -> None:
        """Readable for everybody, so that only the walls around the task keep it."""
        path = self.folder / name
        path.write_text("secret")
        path.chmod(0o666)

    def _listen(self, address: str) -> None:
        server = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(address)
        server.listen()

    def _shared_memory(self) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        shm_id = int(libc.shmget(IPC_PRIVATE, 4096, 0o1666))
        self._stack.callback(libc.shmctl, shm_id, IPC_RMID, None)
        return shm_id


@pytest.fixture(scope="module", params=JAILS, ids="-".join)
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """One task tries the whole table."""
    agent, way = request.param
    if os.geteuid() != 0:
        pytest.skip("only root can make the machine that is attacked, and be an ordinary user")
    folder = tmp_path_factory.mktemp("machine")
    works_or_skip(way, folder / "try")
    uid = UNPRIVILEGED.uid if agent == "root" else ORDINARY
    with ExitStack() as stack:
        machine = Machine(folder, uid, stack)
        facts = machine.facts(ids=(uid, uid), user="task" if agent == "root" else str(uid))
        yield run_jailed(machine, way, facts, ordinary=agent == "ordinary")


def run_jailed(
    machine: Machine, way: str, facts: dict[str, Any], *, ordinary: bool
) -> dict[str, str]:
    spec = machine.spec(facts)
    neighbour = ContainerSpec(
        container_id="neighbour",
        allocation_id="neighbour.1",
        task_id="neighbour",
        task_type="COMMAND",
        entrypoint=("sleep", "600"),
        environment={"DET_SESSION_TOKEN": SECRET},
    )
    request = {
        "isolation": way,
        "work_dir": str(machine.work_dir),
        "spec": spec.model_dump(mode="json"),
        "neighbour": neighbour.model_dump(mode="json"),
    }
    prelude = [sys.executable, "-I", "-S", str(HERE / "as_ordinary_user.py"), str(ORDINARY)]
    done = subprocess.run(
        [
            *(prelude if ordinary else ()),
            sys.executable,
            "-P",
            str(HERE / "jailed.py"),
            json.dumps(request),
        ],
        env={**os.environ, "SECRET_OF_THE_AGENT": "1", "PYTHONPATH": str(HERE.parents[2])},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    said = [line.partition("ANSWER ")[2] for line in done.stdout.splitlines()]
    answered: dict[str, str] = dict(json.loads(answer) for answer in said if answer)
    assert answered, done.stdout + done.stderr
    return answered


def test_everything_holds(answers: dict[str, str]) -> None:
    """The attempts are refused, and the work is done, in the same jail."""
    wrong = {
        row: answer
        for row, answer in answers.items()
        if answer != "ok" and not answer.startswith("skipped")
    }
    assert wrong == {}
    assert len(answers) >= ROWS


def test_the_table_notices_a_missing_wall(tmp_path: Path) -> None:
    """The same attempts by an ordinary user's task that nothing contains: many succeed."""
    if os.geteuid() != 0:
        pytest.skip("only root can make the machine that is attacked, and be an ordinary user")
    with ExitStack() as stack:
        machine = Machine(tmp_path, ORDINARY, stack)
        facts = machine.facts(ids=(ORDINARY, ORDINARY), user=str(ORDINARY))
        answers = run_jailed(machine, "directory", facts, ordinary=True)
    assert "succeeded" in answers["read the agent's credential"]
    assert sum(answer != "ok" for answer in answers.values()) > 40
