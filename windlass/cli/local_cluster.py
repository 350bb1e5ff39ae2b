"""A cluster on this machine: one master and a few agents as detached processes, remembered in a data directory.

DATA_DIR/cluster.json     which processes, at which URL
DATA_DIR/master/          the master's own data, initial-password among it
DATA_DIR/agents/NAME/     work directory of an agent
DATA_DIR/join-token       how agents prove themselves (0600)
DATA_DIR/logs/            what they print
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path

from windlass.base.errors import Conflict, WindlassError
from windlass.cli.processes import (
    KILL_TREE,
    ProcessRecord,
    end,
    start_detached,
    supervisors_below,
)
from windlass.sdk.client import Client
from windlass.sdk.session import Session
from windlass.sdk.wire import Json, MasterError, MasterUnreachable

PROBE_TIMEOUT_S = 3.0
READY_TIMEOUT_S = 60.0
"""The first start makes tables."""
POLL_S = 0.1
POOL = "default"
COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "windlass")


class StartFailed(WindlassError):
    code = "start_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `cluster-up` starts. `slots_per_agent`: artificial slots, for trying things out without GPUs."""

    data_dir: Path
    port: int = 8080
    agents: int = 1
    slots_per_agent: int | None = None
    no_gpu: bool = False
    master_config: Path | None = None
    initial_user_password: str | None = None
    """Of admin and determined, at the first start."""

    @property
    def password_file(self) -> Path:
        """The master makes one unless it is told a password; so that it is on no command line, we tell it here."""
        return self.data_dir / "master" / "initial-password"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What runs, as `cluster.json` has it."""

    url: str
    processes: tuple[ProcessRecord, ...] = ()

    @property
    def alive(self) -> list[ProcessRecord]:
        return [record for record in self.processes if record.is_alive]


def default_data_dir() -> Path:
    return user_data_path("windlass") / "local"


def read_state(data_dir: Path) -> ClusterState | None:
    try:
        content: Json = json.loads((data_dir / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        raise Conflict(f"{data_dir / 'cluster.json'} is damaged: delete it") from None
    records = tuple(ProcessRecord(**record) for record in content["processes"])
    return ClusterState(content["url"], records)


def bring_up(plan: Plan, say: Callable[[str], None]) -> ClusterState:
    """Start it and wait until it answers. On any failure what was started is ended again."""
    before = read_state(plan.data_dir)
    if before is not None and before.alive:
        names = ", ".join(record.name for record in before.alive)
        raise Conflict(
            f"A cluster is already running at {before.url} ({names}): "
            "stop it first with `det deploy local cluster-down`"
        )
    _require_free_port(plan)
    plan.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    _give_password(plan)
    started: list[ProcessRecord] = []
    try:
        say(f"Starting a master at {plan.url}")
        started.append(_start_master(plan))
        _save(plan, started)
        _await_master(plan, started[0])
        if plan.agents:
            token_file = _write_join_token(plan)
            for number in range(plan.agents):
                say(f"Starting agent {number + 1} of {plan.agents}")
                started.append(_start_agent(plan, number, token_file))
                _save(plan, started)
    except BaseException:
        end(started)
        (plan.data_dir / "cluster.json").unlink(missing_ok=True)
        raise
    return ClusterState(plan.url, tuple(started))


def _require_free_port(plan: Plan) -> None:
    """Whatever answers at our address must be what we are about to start. Raises Conflict."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", plan.port)) != 0:
            return
    who = "another program"
    with suppress(MasterUnreachable, MasterError, WindlassError):
        with Session(plan.url, timeout_s=PROBE_TIMEOUT_S) as session:
            info = Client(session).info()
        if "cluster_id" in info:
            name = info.get("cluster_name") or info["cluster_id"]
            who = f"another master (cluster {name}, not started from {plan.data_dir})"
    raise Conflict(f"Port {plan.port} is in use by {who}: stop it, or choose another --port")


def bring_down(data_dir: Path) -> list[str]:
    """End exactly the processes of `cluster.json`, and the tasks below `data_dir`. Returns the names of what ran."""
    state = read_state(data_dir)
    records = list(state.processes) if state is not None else []
    # Agents first: while one lives it could start another task.
    ended = end(record for record in records if record.name != "master")
    tasks = supervisors_below(data_dir)
    end(tasks, KILL_TREE)
    ended += end(record for record in records if record.name == "master")
    tasks += (late := supervisors_below(data_dir))  # of agents that the master itself had started
    end(late, KILL_TREE)
    (data_dir / "cluster.json").unlink(missing_ok=True)
    return [*ended, *(f"task {record.name}" for record in tasks)]


def _give_password(plan: Plan) -> None:
    """Raises Conflict for a cluster that has its users already."""
    if plan.initial_user_password is None:
        return
    folder = plan.password_file.parent
    if folder.exists():
        raise Conflict(
            f"--initial-user-password is for the first start, and {plan.data_dir} holds a cluster already: "
            "leave the option out, and change the password with `det user change-password`"
        )
    folder.mkdir(mode=0o700)
    _write_private(plan.password_file, plan.initial_user_password + "\n")


def _start_master(plan: Plan) -> ProcessRecord:
    command = [*COMMAND, "master", "run", "--host", "127.0.0.1", "--port", str(plan.port)]
    command += ["--data-dir", str(plan.data_dir / "master")]
    if plan.master_config is not None:
        command += ["--config", str(plan.master_config.absolute())]
    return start_detached("master", command, _log_file(plan, "master"), _environment())


def _start_agent(plan: Plan, number: int, token_file: Path) -> ProcessRecord:
    name = f"agent-{number}"
    work_dir = plan.data_dir / "agents" / name
    work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [*COMMAND, "agent", "run", "--master", plan.url, "--pool", POOL, "--agent-id", name]
    command += ["--join-token-file", str(token_file), "--work-dir", str(work_dir)]
    settings: dict[str, str] = {}
    if plan.slots_per_agent is not None:
        settings["DET_ARTIFICIAL_SLOTS"] = str(plan.slots_per_agent)
    elif plan.no_gpu:
        settings["DET_SLOT_TYPE"] = "cpu"
    return start_detached(name, command, _log_file(plan, name), _environment() | settings)


def _await_master(plan: Plan, master: ProcessRecord) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    with Session(plan.url) as session:
        while True:
            if not master.is_alive:
                raise StartFailed(f"The master ended: {_last_line(plan, 'master')}")
            try:
                Client(session).info()
            except (MasterUnreachable, MasterError) as problem:
                if time.monotonic() > deadline:
                    log = _log_file(plan, "master")
                    raise StartFailed(
                        f"The master does not answer after {READY_TIMEOUT_S:.0f} s; see {log}"
                    ) from problem
                time.sleep(POLL_S)
            else:
                return


def _write_join_token(plan: Plan) -> Path:
    command = [*COMMAND, "master", "join-token", POOL]
    command += ["--data-dir", str(plan.data_dir / "master")]
    if plan.master_config is not None:
        command += ["--config", str(plan.master_config.absolute())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    token = done.stdout.strip()
    if done.returncode != 0 or not token:
        reason = done.stderr.strip().splitlines()[-1:] or ["no token was printed"]
        raise StartFailed(
            f"Cannot create a join token for pool {POOL}: {reason[0].removeprefix('error: ')}"
        )
    path = plan.data_dir / "join-token"
    _write_private(path, token + "\n")
    return path


def _save(plan: Plan, records: Sequence[ProcessRecord]) -> None:
    content = {"url": plan.url, "processes": [record.to_json() for record in records]}
    _write_private(plan.data_dir / "cluster.json", json.dumps(content, indent=2))


def _write_private(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)


def _environment() -> dict[str, str]:
    """Ours, without the variables that would mean something else to a master or an agent."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DET_")}


def _log_file(plan: Plan, name: str) -> Path:
    return plan.data_dir / "logs" / f"{name}.log"


def _last_line(plan: Plan, name: str) -> str:
    path = _log_file(plan, name)
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return f"{lines[-1].removeprefix('error: ')} ({path})" if lines else f"see {path}"
