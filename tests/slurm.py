"""A Slurm of the tests' own on 127.0.0.1: its configuration, its munge, and pretended GPUs; as root or as anybody.

Every node is a slurmd of this machine with a name and a port of its own. All is ended by process id.
"""

from __future__ import annotations

import os
import pwd
import secrets
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from getpass import getuser
from pathlib import Path

import psutil
import pytest

from tests.slurm_accounting import CLUSTER, Accounting, require_accounting

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")
"""GPUs must be character devices, or CUDA_VISIBLE_DEVICES is not set. These are never opened."""
LOOPBACK = "127.0.0.1"
MAX_SOCKET = 108
"""Bytes that the kernel takes for the path of a socket, its NUL counted: Slurm makes one for each step."""
START_LIMIT_S = 60.0
END_LIMIT_S = 5.0
BECOME = Path(__file__).parent / "integration/security/as_ordinary_user.py"
DAEMONS = ("munged", "slurmdbd", "slurmctld", "slurmd", "slurmstepd")


def require_slurm(*, accounting: bool = False) -> None:
    """Skip, with the reason, where Slurm, or its accounting, is not installed."""
    missing = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (as root: make .make/slurm)")
    if accounting:
        require_accounting(PATH)


@dataclass
class Slurm:
    """One running site."""

    folder: Path
    nodes: int
    gpus: int
    port: int
    user: str = ""
    """Whose daemons and jobs it has, where root starts it. Empty: root's."""
    jwt: bool = False
    """It takes JSON web tokens beside munge: what slurmrestd needs (tests/slurmrestd.py)."""
    has_accounting: bool = False
    more: str = ""
    """Lines of slurm.conf before its nodes and partitions; an earlier line of the same key counts no more."""
    controller_at: str = LOOPBACK
    nodes_at: str = LOOPBACK
    """Where they reach each other."""
    nodes_via: tuple[str, ...] = ()
    """What stands before slurmd so that it is run where the nodes are."""
    _started: list[psutil.Process] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What its commands, and masters that use it, need."""
        return {"SLURM_CONF": str(self.folder / "etc" / "slurm.conf"), "PATH": PATH}

    def run(self, *words: str, check: bool = True) -> str:
        """One of its commands."""
        done = subprocess.run(
            [*self.become, *words],
            env={**os.environ, **self.environment, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if check and done.returncode:
            raise AssertionError(f"{words} failed: {done.stderr}")
        return done.stdout

    @property
    def become(self) -> list[str]:
        """What stands before a command so that its user runs it."""
        if not self.user:
            return []
        uid = str(pwd.getpwnam(self.user).pw_uid)
        return [sys.executable, "-I", "-S", str(BECOME), uid, "/usr/bin/env"]

    def jobs(self, *states: str) -> list[str]:
        """Names of the jobs in these states (none: those that are not over)."""
        wanted = ("-t", ",".join(states)) if states else ()
        return self.run("squeue", "-h", "-o", "%j", *wanted).split()

    @property
    def owner(self) -> str:
        return self.user or getuser()

    def start_controller(self) -> None:
        self._daemon("slurmctld", [])
        _until("slurmctld answers", lambda: "UP" in self.run("scontrol", "ping", check=False))

    def stop_controller(self) -> None:
        """It keeps its state, and jobs run on."""
        for pid in self._pids("slurmctld"):
            _end(psutil.Process(pid))

    def start_node(self, number: int) -> None:
        self._daemon("slurmd", ["-N", f"n{number}"], via=self.nodes_via)

    def start(self) -> None:
        socket_file = f"{self.folder}/spool/n{self.nodes}/n{self.nodes}_99.4294967291"
        assert len(socket_file) < MAX_SOCKET, f"no job could start: {socket_file} is too long"
        self._write_configuration()
        etc, run_ = self.folder / "etc", self.folder / "run"
        self._daemon(
            "munged",
            [
                "--force",
                f"--key-file={etc}/munge.key",
                f"--socket={run_}/munge.s",
                f"--pid-file={run_}/munged.pid",
                f"--log-file={self.folder}/log/munged.log",
                f"--seed-file={run_}/munge.seed",
            ],
        )
        if self.has_accounting:
            self.start_accounting()
            self.accounting.register(self.run)
        self._daemon("slurmctld", [])
        for number in range(1, self.nodes + 1):
            self.start_node(number)
        _until("all nodes are idle", self._all_idle)

    def start_accounting(self) -> None:
        """slurmdbd, and its database where that is not running."""
        self.accounting.start_database(self.become, _until)
        self._daemon("slurmdbd", [], self.accounting.environment)
        _until("slurmdbd answers", lambda: self._answers("sacctmgr", "-n", "show", "cluster"))

    def stop_accounting(self) -> None:
        """slurmdbd alone; its database goes on."""
        for pid in self._pids("slurmdbd"):
            _end(psutil.Process(pid))

    @cached_property
    def accounting(self) -> Accounting:
        return Accounting(self.folder, self.port + self.nodes + 1, self.owner)

    def stop(self) -> None:
        """Jobs first, then the daemons, then whatever still names this folder."""
        with suppress(Exception):
            self.run("scancel", "--me", check=False)
            _until("no jobs are left", lambda: not self.jobs())
        processes = [p for name in reversed(DAEMONS) for p in self._processes(name)]
        for process in processes:
            _end(process)
        if self.has_accounting:
            self.accounting.stop()

    def settle(self) -> None:
        """Between tests: no jobs, and every node as it was."""
        for name in self.run("scontrol", "show", "hostnames", f"n[1-{self.nodes}]").split():
            self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        self.run("scancel", "--me", check=False)
        _until("no jobs are left", lambda: not self.jobs() and self._all_idle())

    def _all_idle(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%T", check=False).split()
        return states == ["idle"] * self.nodes

    def _answers(self, *words: str) -> bool:
        try:
            self.run(*words)
        except AssertionError:
            return False
        return True

    def _daemon(
        self,
        name: str,
        arguments: list[str],
        environment: Mapping[str, str] | None = None,
        *,
        via: tuple[str, ...] = (),
    ) -> None:
        """They go into the background by themselves."""
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            subprocess.run(
                [*self.become, *via, name, *arguments],
                env={**os.environ, **self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                timeout=START_LIMIT_S,
            )

    def _pids(self, name: str) -> list[int]:
        return [process.pid for process in self._processes(name)]

    def _processes(self, name: str) -> list[psutil.Process]:
        """By what they were told of this folder: a pid file may be missing or old."""
        mark = str(self.folder)
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.name() == name and (
                    process.environ().get("SLURM_CONF", "").startswith(mark)
                    or any(mark in word for word in process.cmdline())
                ):
                    found.append(process)
        return found

    def _write_configuration(self) -> None:
        for name in ("etc", "state", "spool", "run", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("munge.key", "jwt.key"):
            key = self.folder / "etc" / name
            key.touch(mode=0o600)
            key.write_bytes(secrets.token_bytes(128))
        (self.folder / "etc" / "slurm.conf").write_text(self._slurm_conf())
        if self.has_accounting:
            self.accounting.write_configuration(self._tokens)
        nodes = f"n[1-{self.nodes}]"
        (self.folder / "etc" / "gres.conf").write_text(
            "".join(
                f"NodeName={nodes} Name=gpu Type=fake File={device}\n"
                for device in DEVICES[: self.gpus]
            )
        )
        if self.user:
            shutil.chown(self.folder, self.user)
            for path in self.folder.rglob("*"):
                shutil.chown(path, self.user)

    @property
    def _tokens(self) -> str:
        key = self.folder / "etc" / "jwt.key"
        return f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n" if self.jwt else ""

    def _slurm_conf(self) -> str:
        host, me = socket.gethostname().split(".")[0], self.owner
        folder = self.folder
        nodes = f"n[1-{self.nodes}]"
        accounting = self.accounting.slurm_conf if self.has_accounting else ""
        return f"""ClusterName={CLUSTER}
SlurmctldHost={host}({self.controller_at})
SlurmctldPort={self.port}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.s
{self._tokens}SlurmUser={me}
SlurmdUser={me}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
KillWait=2
MinJobAge=300
SlurmdTimeout=300
SchedulerParameters=sched_interval=1,bf_interval=2,sched_min_interval=50000
NodeName=DEFAULT CPUs=16 RealMemory=16000 Gres=gpu:fake:{self.gpus} Feature=fake State=UNKNOWN
NodeName={nodes} NodeHostname={host} NodeAddr={self.nodes_at} Port=[{self.port + 1}-{self.port + self.nodes}]
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
{accounting}{self.more}
PartitionName=DEFAULT PreemptMode=OFF
PartitionName=gpu Nodes={nodes} Default=YES DefaultTime=30 MaxTime=2-0 State=UP
PartitionName=short Nodes=n1 MaxTime=2 MaxNodes=1 State=UP
PartitionName=closed Nodes=n1 MaxTime=60 State=DOWN
PartitionName=scavenger Nodes={nodes} MaxTime=60 State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=60
PartitionName=urgent Nodes={nodes} MaxTime=60 State=UP PriorityTier=100
"""


@contextmanager
def running_slurm(
    folder: Path,
    *,
    nodes: int = 2,
    gpus: int = 2,
    user: str = "",
    jwt: bool = False,
    accounting: bool = False,
    more: str = "",
) -> Iterator[Slurm]:
    """`accounting`: with slurmdbd and its database; `more`: lines of slurm.conf."""
    slurm = free_slurm(folder, nodes=nodes, gpus=gpus, user=user)
    slurm.jwt, slurm.has_accounting, slurm.more = jwt, accounting, more
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()


def free_slurm(folder: Path, *, nodes: int = 2, gpus: int = 2, user: str = "") -> Slurm:
    """At ports that are free here."""
    return Slurm(folder=folder, nodes=nodes, gpus=gpus, port=_free_ports(nodes + 2), user=user)


def environment_of(slurm: Slurm) -> Mapping[str, str]:
    return {**os.environ, **slurm.environment}


def _free_ports(count: int) -> int:
    """The first of so many in a row, below those that outgoing connections take: one kept a node from starting."""
    for _ in range(100):
        first = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError, OverflowError):
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
    raise AssertionError("no free ports in a row")


def _end(process: psutil.Process) -> None:
    """A zombie has ended: whoever adopted it may collect it late."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        ended = os.pidfd_open(process.pid)  # readable once it has
        try:
            process.terminate()
            if not select.select([ended], [], [], END_LIMIT_S)[0]:
                process.kill()
                select.select([ended], [], [], END_LIMIT_S)
        finally:
            os.close(ended)


def _until(what: str, look: object) -> None:
    assert callable(look)
    deadline = time.monotonic() + START_LIMIT_S
    while not look():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {START_LIMIT_S:g} s: {what}")
        time.sleep(0.05)
