"""What is done on one machine, step by step. Every step may be repeated.

PREFIX/venvs/<version>-<digest>/   one environment per wheel of ours; whole once it holds `.complete`
PREFIX/current                     a link to the one whose agent runs

A token goes there by standard input only.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from windlass.base.packages import DISTRIBUTION, VERSION
from windlass.install.hosts import SshHost
from windlass.install.ssh import Access, FinishedCommand, HostError, RemoteMachine
from windlass.install.wheels import Wheel

OLDEST_PYTHON = (3, 11)
PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11", "python3")
SYSTEM_PREFIX = "/opt/windlass"
USER_PREFIX = ".local/share/windlass/agent"
"""Below the user's home."""

_PROBE = """
echo "uid=$(id -u)"; echo "home=$HOME"
for python in "$@"; do
  "$python" -c 'import sys, importlib.util as u
print("python=%s %d.%d %d" % (sys.executable, *sys.version_info[:2], all(map(u.find_spec, ("venv", "ensurepip")))))' \
2>/dev/null
done; true
"""
_STATE = """
if [ -e "$1/venvs/$2/.complete" ]; then echo complete; fi
echo "current=$(readlink "$1/current" 2>/dev/null)"
"""
_COPY = """
set -e; umask 077
folder=$(mktemp -d "${TMPDIR:-/tmp}/windlass.XXXXXXXX")
tar -xf - -C "$folder"
echo "$folder"
"""
_INSTALL = """
set -e; umask 022
prefix=$1 venv=$1/venvs/$2 python=$3 folder=$4; shift 4
trap 'rm -rf "$folder"' EXIT
mkdir -p "$prefix/venvs"; rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-compile "$@"
touch "$venv/.complete"
"""
_JOIN = """
set -e
venv=$1/venvs/$2; shift 2
exec "$venv/bin/windlass" agent join "$@" --token-file - --json
"""
_SWITCH = """
set -e
old=$(readlink "$1/current" 2>/dev/null || true)
ln -sfn "venvs/$2" "$1/current"
for venv in "$1"/venvs/*; do
  case "venvs/${venv##*/}" in "venvs/$2" | "$old") ;; *) rm -rf "$venv" ;; esac
done
"""
_LEAVE = """
if [ ! -e "$1/venvs" ]; then echo absent; exit 0; fi
set -e
prefix=$1; shift
for venv in "$prefix/current" "$prefix"/venvs/*; do
  if [ -e "$venv/.complete" ]; then "$venv/bin/windlass" agent leave --yes "$@" >&2; break; fi
done
rm -rf "$prefix/venvs" "$prefix/current"
rmdir "$prefix" 2>/dev/null || true
echo removed
"""


class InstallStep(StrEnum):
    """As it is shown while it runs, and named if it fails."""

    WAIT = "waiting"
    CONNECT = "connecting"
    ROOT = "becoming root"
    PYTHON = "looking for Python"
    COPY = "copying"
    INSTALL = "installing"
    JOIN = "joining"
    LEAVE = "leaving"


class InstallResult(StrEnum):
    INSTALLED = "installed"
    UPGRADED = "upgraded"
    UNCHANGED = "already installed, same version"
    REMOVED = "removed"
    ABSENT = "not installed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """The same for all machines."""

    url: str
    token: str = field(repr=False)
    wheel: Wheel = field(repr=False)
    others: Sequence[Wheel] = field(default=(), repr=False)
    """All that it needs. Empty: the machine's own index has it."""
    join: Sequence[str] = ()
    """Options of `windlass agent join`."""
    user: bool = False
    """For the user alone, without root."""
    prefix: str | None = None
    python: str | None = None

    @property
    def name(self) -> str:
        """Of the environment."""
        return f"{VERSION}-{self.wheel.digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    options: Sequence[str] = ()
    """Of `windlass agent leave`."""
    user: bool = False
    prefix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOutcome:
    host: str
    result: InstallResult
    step: InstallStep | None = None
    """Where it failed."""
    error: str = ""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """What the agent's `join` said: agent_id, pool, slots, ..."""


Tell = Callable[[InstallStep], None]


def install(host: SshHost, access: Access, plan: InstallPlan, tell: Tell) -> InstallOutcome:
    """Never raises: what went wrong is in the outcome."""
    run = _Run(host, tell)
    with run.watched():
        run.done = run.install(access, plan)
    return run.done


def uninstall(host: SshHost, access: Access, removal: Removal, tell: Tell) -> InstallOutcome:
    """Never raises."""
    run = _Run(host, tell)
    with run.watched():
        run.done = run.uninstall(access, removal)
    return run.done


class _Watch:
    def __init__(self, run: _Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        said = error.message if isinstance(error, HostError) else f"{type(error).__name__}: {error}"
        self._run.done = InstallOutcome(
            host=self._run.host.spec, result=InstallResult.FAILED, step=self._run.step, error=said
        )
        return True


class _Run:
    """One machine, at one step at a time."""

    def __init__(self, host: SshHost, tell: Tell) -> None:
        self.host = host
        self.step = InstallStep.WAIT
        self.done = InstallOutcome(host=host.spec, result=InstallResult.FAILED)
        self._tell = tell

    def watched(self) -> _Watch:
        return _Watch(self)

    def install(self, access: Access, plan: InstallPlan) -> InstallOutcome:
        self._at(InstallStep.CONNECT)
        with RemoteMachine(self.host, access) as machine:
            self._become_root(machine, user=plan.user)
            self._at(InstallStep.PYTHON)
            probe = _require(machine.run(_PROBE, *([plan.python] if plan.python else PYTHONS)))
            python = _python(probe.out, plan.python)
            prefix = plan.prefix or _prefix(probe.out, user=plan.user)
            state = machine.run(_STATE, prefix, plan.name).out
            if "complete" not in state.split():
                self._at(InstallStep.COPY)
                folder = _require(machine.run(_COPY, given=_archive(plan))).last_line
                self._at(InstallStep.INSTALL)
                words = [f"{folder}/{plan.wheel.name}[agent]"]
                if plan.others:
                    words = ["--no-index", "--find-links", folder, *words]
                _require_installed(
                    machine.run(_INSTALL, prefix, plan.name, python, folder, *words), plan
                )
            self._at(InstallStep.JOIN)
            agent = self._join(machine, plan, prefix)
            _require(machine.run(_SWITCH, prefix, plan.name))
        before = _value(state, "current")
        result = InstallResult.UPGRADED if before else InstallResult.INSTALLED
        if before == f"venvs/{plan.name}":
            result = InstallResult.UNCHANGED
        return InstallOutcome(host=self.host.spec, result=result, agent=agent)

    def uninstall(self, access: Access, removal: Removal) -> InstallOutcome:
        self._at(InstallStep.CONNECT)
        with RemoteMachine(self.host, access) as machine:
            self._become_root(machine, user=removal.user)
            self._at(InstallStep.LEAVE)
            probe = _require(machine.run(_PROBE))
            prefix = removal.prefix or _prefix(probe.out, user=removal.user)
            words = [*removal.options, "--user" if removal.user else "--system"]
            done = _agreed(machine.run(_LEAVE, prefix, *words))
        gone = (
            InstallResult.ABSENT if done.out.split()[-1:] == ["absent"] else InstallResult.REMOVED
        )
        return InstallOutcome(host=self.host.spec, result=gone)

    def _at(self, step: InstallStep) -> None:
        self.step = step
        self._tell(step)

    def _become_root(self, machine: RemoteMachine, *, user: bool) -> None:
        if user or machine.run("id -u").out.strip() == "0":
            return
        self._at(InstallStep.ROOT)
        machine.become_root()

    def _join(self, machine: RemoteMachine, plan: InstallPlan, prefix: str) -> Mapping[str, Any]:
        settings = [w for k, v in self.host.settings.items() for w in ("--set", f"{k}={v}")]
        words = [plan.url, *plan.join, *settings, "--user" if plan.user else "--system"]
        given = plan.token.encode() + b"\n"
        done = _agreed(machine.run(_JOIN, prefix, plan.name, *words, given=given))
        try:
            return dict(json.loads(done.out))
        except ValueError:
            raise HostError(f"windlass agent join answered {done.last_line!r}") from None


def _archive(plan: InstallPlan) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for wheel in (plan.wheel, *(w for w in plan.others if w.name != plan.wheel.name)):
            entry = tarfile.TarInfo(wheel.name)
            entry.size = len(wheel.content)
            archive.addfile(entry, io.BytesIO(wheel.content))
    return packed.getvalue()


def _python(probe: str, given: str | None) -> str:
    """The newest that will do. Raises HostError that says what is missing."""
    found = [
        line.removeprefix("python=").rsplit(" ", 2)
        for line in probe.splitlines()
        if line.startswith("python=")
    ]
    versions = {path: tuple(map(int, version.split("."))) for path, version, _ in found}
    oldest = ".".join(map(str, OLDEST_PYTHON))
    fit = [(path, has) for path, _, has in found if versions[path] >= OLDEST_PYTHON]
    for path, has in fit:
        if has == "1":
            return path
    if fit:
        version = ".".join(map(str, versions[fit[0][0]]))
        raise HostError(
            f"{fit[0][0]} cannot make environments: install its venv package (python{version}-venv)"
        )
    has = ", ".join(f"{path} is {'.'.join(map(str, v))}" for path, v in versions.items())
    raise HostError(
        f"no Python {oldest} or newer{f' ({has})' if has else ''}: install one"
        + ("" if given else ", or name one with --python")
    )


def _prefix(probe: str, *, user: bool) -> str:
    return f"{_value(probe, 'home')}/{USER_PREFIX}" if user else SYSTEM_PREFIX


def _value(text: str, key: str) -> str:
    return next((t.partition("=")[2] for t in text.splitlines() if t.startswith(f"{key}=")), "")


def _require(done: FinishedCommand) -> FinishedCommand:
    if done.code != 0:
        raise HostError(done.last_line)
    return done


def _agreed(done: FinishedCommand) -> FinishedCommand:
    """Raises HostError in the words of the `windlass agent` command that was run."""
    if done.code == 0:
        return done
    lines = [line for line in done.err.splitlines() if line.startswith("error: ")]
    raise HostError(lines[-1].removeprefix("error: ") if lines else done.last_line)


def _require_installed(done: FinishedCommand, plan: InstallPlan) -> None:
    if done.code == 0:
        return
    errors = [t for t in done.err.splitlines() if t.upper().startswith("ERROR:")]
    said = errors[0][len("error:") :].strip() if errors else done.last_line
    way_out = (
        "the wheels must be for this machine's Python and processor"
        if plan.others
        else f"give --wheels if the machine has no package index, or make '{DISTRIBUTION}[agent]' installable there"
    )
    raise HostError(f"pip failed: {said}: {way_out}")
