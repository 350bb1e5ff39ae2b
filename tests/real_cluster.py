"""A whole cluster of real processes in a folder: one master, what its elastic pools launch, and static agents."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import yaml

from master.server.loop_watch import HELD
from tests.forked import Forked, output_of
from tests.jails import open_way_to
from windlass.base.errors import WindlassError
from windlass.base.tls.trust import Trust
from windlass.sdk.client import Client
from windlass.sdk.context_dir import pack_directory
from windlass.sdk.session import Session

T = TypeVar("T")
Json = dict[str, Any]

PATIENCE_S = 90.0
"""How long anything in these tests may take before it counts as never."""
LONGEST_STEP_MS = 250
ENDS = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR")
WINDLASS = str(Path(sys.executable).with_name("windlass"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> set[str]:
    """Addresses of this machine on which somebody waits there."""
    return {
        one.laddr.ip
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port
    }


def eventually(what: str, look: Callable[[], T | None], *, patience_s: float = PATIENCE_S) -> T:
    """The first true answer of `look`. For processes that can only be asked, not awaited."""
    deadline = time.monotonic() + patience_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s:.0f} s: {what}")
        time.sleep(0.05)


def embedded_pool(**settings: Any) -> Json:
    """A pool section whose instances are processes on this machine."""
    provider = {
        "type": "embedded",
        "slots_per_instance": 2,
        "boot_time": "300ms",
        "usd_per_hour": 2.0,
    }
    pool = {
        "pool_name": "compute",
        "max_instances": 2,
        "max_idle_agent_period": "2s",
        "agent_reconnect_wait": "10s",
        "provider": provider,
    }
    provider.update({k: v for k, v in settings.items() if k in provider})
    pool.update({k: v for k, v in settings.items() if k not in provider})
    return pool


class RealCluster:
    """Start, crash and restart the processes of one cluster. A context manager that leaves nothing behind."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], *, trust: Path | None = None
    ) -> None:
        """`trust`: what clients and agents trust, for a master with TLS."""
        self.folder = folder
        self.data_dir = folder / "master"
        self.port = free_port()
        self.url = f"http{'s' if trust else ''}://127.0.0.1:{self.port}"
        self._trust = trust
        self.agent_options: tuple[str, ...] = ("--master-cert", str(trust)) if trust else ()
        self.master_via: tuple[str, ...] = ()
        """What to put before the master's command."""
        self.master_options: tuple[str, ...] = ()
        self.config_file = folder / "master.yaml"
        folder.mkdir(parents=True, exist_ok=True)
        open_way_to(folder / "x")
        self.config_file.write_text(yaml.safe_dump({"port": self.port, **config}))
        self.master: Forked | subprocess.Popen[bytes] | None = None
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._client: Client | None = None

    @classmethod
    def self_signed(cls, folder: Path, config: Mapping[str, Any]) -> RealCluster:
        """One whose master signs its certificate itself, as `config` says; agents have the fingerprint."""
        cluster = cls(folder, config, trust=folder / "master.pem")
        cluster.sign()
        return cluster

    def sign(self) -> None:
        """Before the master runs, so that whoever starts it knows what to trust."""
        assert self._trust is not None
        self._certificate("--make")
        self._trust.write_bytes(self._certificate("--pem"))
        fingerprint = self._certificate().decode().strip()
        self.agent_options = ("--cert-fingerprint", fingerprint)

    def _certificate(self, *words: str) -> bytes:
        files = ("-c", str(self.config_file), "--data-dir", str(self.data_dir))
        return output_of("master", "certificate", *files, *words)

    def __enter__(self) -> RealCluster:
        self.start_master()
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        self._end()
        if failed is None:
            assert not self.held_loop(), "a step of the master's event loop took too long"

    def events(self) -> list[Json]:
        """What the master logged."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def held_loop(self) -> list[Json]:
        """Steps of the master's event loop that took more of its own CPU time than any may."""
        steps = [event for event in self.events() if event["event"] == HELD]
        return [step for step in steps if step["cpu_ms"] >= LONGEST_STEP_MS]

    def _end(self) -> None:
        if self._client is not None:
            self._client.session.close()
        for agent in self._agents.values():
            _stop(agent)
        if self.master is not None:
            _stop(self.master)
        if (self.data_dir / "instances").exists():
            with suppress(subprocess.CalledProcessError):
                output_of("master", "end-instances", "--data-dir", str(self.data_dir))
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    # --- processes ------------------------------------------------------------------------------------------------

    def start_master(self) -> None:
        log = self.folder / "master.log"
        words = ["master", "run", "-c", str(self.config_file), "--data-dir", str(self.data_dir)]
        words += self.master_options
        if self.master_via:
            self.master = _spawned([*self.master_via, WINDLASS, *words], log)
        else:
            self.master = Forked(words, log)
        eventually("the master answers", self._answers)

    def _answers(self) -> bool:
        assert self.master is not None
        if self.master.poll() is not None:
            raise AssertionError(f"the master ended:\n{self.log()[-4000:]}")
        with suppress(WindlassError), self.session() as session:
            return bool(session.get("/info"))
        return False

    def session(self) -> Session:
        """One that has not logged in."""
        pem = self._trust.read_text() if self._trust is not None else ""
        return Session(self.url, trust=Trust(pem=pem))

    def kill_master(self) -> None:
        """SIGKILL: no line of it runs any more."""
        assert self.master is not None
        self.master.kill()
        self.master.wait()

    def stop_master(self) -> None:
        """As its operator does."""
        assert self.master is not None
        _stop(self.master)

    def recover(self, *, but: Collection[int] = ()) -> None:
        """After a test that may have failed: the master runs, and no experiment does except these."""
        if self.master is None or self.master.poll() is not None:
            self.start_master()
        for experiment in self.client.experiments(archived=None):
            if experiment["state"] not in ENDS and experiment["id"] not in but:
                self.client.session.post(f"/api/v1/experiments/{experiment['id']}/kill")

    def start_agent(
        self,
        agent_id: str,
        *,
        pool: str = "default",
        slots: int = 2,
        via: Sequence[str] = (),
        host: str = "127.0.0.1",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """`via`: what to put before its command; `host`: where it reaches the master; `options`: of agent.yaml."""
        config = self.folder / f"{agent_id}.yaml"
        config.write_text(yaml.safe_dump(dict(options or {})))
        token = self.folder / f"{pool}.token"
        if not token.exists():
            files = ("-c", str(self.config_file), "--data-dir", str(self.data_dir))
            made = output_of("master", "pool-token", pool, *files)
            token.touch(mode=0o600)
            token.write_bytes(made)
        self._agents[agent_id] = _spawned(
            [
                *via,
                *(WINDLASS, "agent", "run", "--master", self.url.replace("127.0.0.1", host)),
                *("--pool", pool, "--config-file", str(config)),
                *("--agent-id", agent_id, "--join-token-file", str(token)),
                *("--work-dir", str(self.folder / agent_id), "--artificial-slots", str(slots)),
                *self.agent_options,
            ],
            self.folder / f"{agent_id}.log",
        )
        eventually(f"agent {agent_id} is connected", lambda: agent_id in self.agents())

    def kill_agent(self, agent_id: str) -> None:
        self._agents[agent_id].kill()
        self._agents[agent_id].wait()

    @property
    def master_pid(self) -> int:
        assert self.master is not None
        return self.master.pid

    def hosts(self) -> dict[str, psutil.Process]:
        """Instance id -> its living host process."""
        found = {}
        for state in self.data_dir.glob("instances/*/*/host.state"):
            with suppress(OSError, ValueError, psutil.NoSuchProcess):
                found[state.parent.name] = psutil.Process(json.loads(state.read_text())["pid"])
        return {k: p for k, p in found.items() if p.is_running() and p.status() != "zombie"}

    def processes(self, below: Path | None = None, *, word: str = "") -> list[psutil.Process]:
        """Everything that runs for this cluster besides its master: found by the folder they work in.

        `below`: a folder of the cluster's; `word`: only those with this word in their command line.
        """
        mark = str(below or self.folder)
        own = {os.getpid()} | ({self.master.pid} if self.master else set())
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid in own or process.status() == "zombie":
                    continue
                words = process.cmdline()
                if any(mark in each for each in words) and (not word or word in words):
                    found.append(process)
        return found

    def end_hosts(self, below: Path) -> None:
        """As if their agents had heard of nobody for ten minutes. The first that ends may end the others of its job."""
        for host in self.processes(below, word="agent_bootstrap.host"):
            with suppress(psutil.NoSuchProcess):
                host.terminate()

    def log(self) -> str:
        path = self.folder / "master.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # --- what users do --------------------------------------------------------------------------------------------

    @property
    def password(self) -> str:
        """Of admin and determined."""
        given = yaml.safe_load(self.config_file.read_text()).get("security", {})
        made = self.data_dir / "initial-password"
        return str(given.get("initial_user_password") or made.read_text().strip())

    def login_as(self, user: str = "determined") -> dict[str, str]:
        """The variables by which a command line, ours or the published one, logs in."""
        trust = {"DET_MASTER_CERT_FILE": str(self._trust)} if self._trust is not None else {}
        return {"DET_USER": user, "DET_PASS": self.password, **trust}

    @property
    def client(self) -> Client:
        if self._client is None:
            session = self.session()
            session.login("determined", self.password)
            self._client = Client(session)
        return self._client

    def get(self, path: str) -> Json:
        return self.client.session.get(path)

    def submit(self, config: Mapping[str, Any], model: Path) -> int:
        created = self.client.create_experiment(
            yaml.safe_dump(dict(config)), pack_directory(model).files
        )
        return int(created["experiment"]["id"])

    def experiment(self, experiment_id: int) -> Json:
        return dict(self.client.experiment(experiment_id)["experiment"])

    def wait(self, experiment_id: int, *, patience_s: float = PATIENCE_S) -> Json:
        """The experiment once it is over. The master may be away meanwhile."""

        def look() -> Json | None:
            with suppress(WindlassError):
                experiment = self.experiment(experiment_id)
                return experiment if experiment["state"] in ENDS else None
            return None

        return eventually(f"experiment {experiment_id} ends", look, patience_s=patience_s)

    def trials(self, experiment_id: int) -> list[Json]:
        return self.client.trials(experiment_id)

    def logs_of(self, trial_id: int) -> str:
        return "".join(str(e["message"]) for e in self.client.logs(trial_id))

    def agents(self) -> list[str]:
        with suppress(WindlassError):
            return [str(a["id"]) for a in self.client.agents()]
        return []

    def instances(self) -> list[Json]:
        return list(self.get("/api/v1/windlass/fleet")["instances"])


def _spawned(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as written:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )


def _stop(process: Forked | subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
