"""`windlass hpc ... --ssh user@login`: the same command on a login node, with the Windlass that is installed there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import BatchSystemError

LOGIN_VARIABLE = "WINDLASS_HPC_LOGIN"
"""How the user's own machine calls the login node: for the `ssh -L` line that is printed there."""
MISSING = 127
USUAL = "~/windlass-venv"
"""The environment of the quick start."""
OLDEST_PYTHON = (3, 11)
_SCRIPT = f"""\
program=$1 login=$2; shift 2
if [ -z "$program" ]; then
  for one in "$HOME/windlass-venv/bin/windlass" "$(sh -lc 'command -v windlass' 2>/dev/null)"; do
    if [ -x "$one" ]; then program=$one; break; fi
  done
fi
if [ ! -x "$program" ]; then
  for one in python3 python3.11 python3.12 python3.13 python3.14; do
    sh -lc "$one --version" 2>/dev/null
  done
  exit {MISSING}
fi
{LOGIN_VARIABLE}=$login exec sh -lc 'exec "$0" hpc "$@"' "$program" "$@"
"""
"""By a login shell: the commands of batch systems are often on the PATH of those only."""
_VERSION = re.compile(r"^Python (\d+)\.(\d+)\S*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLogin:
    """Where `--ssh` and its companions lead."""

    spec: str
    """`user@host:port`."""
    key: Path | None = None
    jump: str | None = None
    program: str = ""
    """`windlass` there; empty: looked for."""


@dataclass(frozen=True, slots=True)
class RemoteOutput:
    code: int
    out: str
    err: str


def run_there(login: SshLogin, words: Sequence[str]) -> RemoteOutput:
    """Raises BatchSystemError, with the way out."""
    try:  # paramiko is of the extra
        from windlass.install.hosts import parse_host
        from windlass.install.ssh import Access, HostError, RemoteMachine
    except ModuleNotFoundError as error:
        raise BatchSystemError(
            f"--ssh needs {error.name}: pip install 'windlass-cluster[hpc]'"
        ) from None
    access = Access(identity=login.key, jump=login.jump, identity_option="--ssh-key")
    try:
        with RemoteMachine(parse_host(login.spec), access) as machine:
            done = machine.run(_SCRIPT, login.program, login.spec, *words)
    except HostError as error:
        raise BatchSystemError(f"login node {login.spec}: {error.message}") from None
    if done.code == MISSING:
        raise BatchSystemError(not_installed(login, done.out))
    return RemoteOutput(done.code, done.out, done.err)


def not_installed(login: SshLogin, pythons: str) -> str:
    """`pythons`: what the Pythons there said of themselves."""
    if login.program:
        return f"there is no program {login.program} on {login.spec}: correct --ssh-windlass"
    found = [(int(major), int(minor)) for major, minor in _VERSION.findall(pythons)]
    newest = max(found, default=None)
    install = (
        f"ssh {login.spec}, then: python3 -m venv {USUAL} && {USUAL}/bin/pip install 'windlass-cluster[hpc]'; "
        "or give --ssh-windlass if it is elsewhere"
    )
    if newest is None or newest < OLDEST_PYTHON:
        has = "no Python" if newest is None else f"Python {newest[0]}.{newest[1]}"
        return (
            f"Windlass is not installed on {login.spec}, which has {has}, and it needs 3.11 or newer: get one there "
            f"(module load python, conda, or uv), then {install}"
        )
    if (major_minor := found[0]) < OLDEST_PYTHON:
        named = f"python{newest[0]}.{newest[1]}"
        install = install.replace("python3 -m", f"{named} -m")
        return (
            f"Windlass is not installed on {login.spec}, where python3 is {major_minor[0]}.{major_minor[1]}, too old, "
            f"and {named} is there: {install}"
        )
    return f"Windlass is not installed on {login.spec}: {install}"
