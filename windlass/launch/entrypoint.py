"""The user's program: started, signalled, and its exit code passed on."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.base.formats.trial_class import PACKAGE, is_trial_class
from windlass.core._info import ClusterInfo
from windlass.core._session import TaskSession

FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)

TOLD_TO_END = 128 + signal.SIGTERM
"""The exit code of what SIGTERM ended."""
NO_SHELLS = frozenset({"nologin", "false"})
"""Programs by which accounts say that nobody logs in."""
DEEPSPEED = f"{PACKAGE}.launch.deepspeed"
"""DeepSpeed hands variables to ranks on other nodes without quoting, which no JSON survives: each rank of the
published package would end when it reads its DET_RETRY_CONFIG. Without it the package has defaults of its own."""


def command_of(entrypoint: Any) -> list[str]:
    """A list is the command itself, text goes through `sh -c`, and `module:TrialClass` is the published package's."""
    match entrypoint:
        case [*words] if words:
            return [str(word) for word in words]
        case str(text) if is_trial_class(text):
            launcher = f"{PACKAGE}.launch.torch_distributed"
            return ["python3", "-m", launcher, "--", "--trial", text]
        case str(text) if text.strip():
            return ["sh", "-c", text]
    raise InvalidArgument("the experiment configuration has no entrypoint")


def run_entrypoint(
    command: Sequence[str],
    session: TaskSession,
    info: ClusterInfo,
    *,
    watch: Callable[[IO[bytes]], object] | None = None,
) -> int:
    """Run it to its end and return its exit code; 128 + n if signal n ended it.

    `watch`: is given what a service prints on stderr, which is then nobody else's. A service that was told to end has
    not succeeded, whatever it says: its batch job is over.
    """
    early: list[int] = []
    child: list[subprocess.Popen[bytes]] = []
    told: set[int] = set()

    def forward(number: int, frame: FrameType | None) -> None:
        told.add(number)
        if child:
            child[0].send_signal(number)
        else:
            early.append(number)

    def announce_eviction(number: int, frame: FrameType | None) -> None:
        """Slurm's TERM means "soon": ask for a preemption, so that the trial saves a checkpoint."""
        if info.container_rank == 0:
            path = f"/api/v1/allocations/{info.allocation_id}/signals/pending_preemption"
            try:
                session.request("POST", path, retry=False)
            except WindlassError as problem:
                print(f"windlass launch: cannot announce the eviction: {problem}", flush=True)

    in_slurm = os.environ.get("DET_RESOURCES_TYPE") == "slurm-job"
    can_be_preempted = info.task_type == "TRIAL"
    for number in FORWARDED:
        is_eviction = in_slurm and can_be_preempted and number == signal.SIGTERM
        signal.signal(number, announce_eviction if is_eviction else forward)
    try:
        child.append(
            subprocess.Popen(
                command,
                env=program_environment(command, os.environ),
                stderr=None if watch is None else subprocess.PIPE,
            )
        )
    except FileNotFoundError:
        raise InvalidArgument(f"the entrypoint {command[0]!r} is not on PATH") from None
    for missed in early:
        child[0].send_signal(missed)
    if watch is not None and child[0].stderr is not None:
        watch(child[0].stderr)
    code = child[0].wait()
    if code == 0 and watch is not None and signal.SIGTERM in told:
        return TOLD_TO_END
    return 128 - code if code < 0 else code


def program_environment(command: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """What the user's program is given. Programs that a hook installed with `pip install --user` come first on PATH."""
    changed = dict(environ)
    base = environ.get("PYTHONUSERBASE")
    if base:
        changed["PATH"] = f"{base}/bin{os.pathsep}{environ.get('PATH', os.defpath)}"
    if any(DEEPSPEED in word for word in command):
        changed.pop("DET_RETRY_CONFIG", None)
    shell = login_shell(os.getuid())
    if shell:
        changed.setdefault("SHELL", shell)
    return changed


def login_shell(uid: int) -> str:
    """That of passwd, which terminals of JupyterLab, tmux and others start. Empty: it has none that runs here."""
    try:
        shell = pwd.getpwuid(uid).pw_shell
    except KeyError:
        return ""
    runs = Path(shell).name not in NO_SHELLS and os.access(shell, os.X_OK)
    return shell if runs else ""
