"""The Python that was chosen for a task: where it is, and which folders have to be seen so that it runs.

It is looked for with the rights of whoever chose it, and nothing of it is run here: a user may have written it. What a
user chose is mounted by the rules of `bind_mounts`.
"""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import windlass.base
from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import Interpreter, search_path
from agent_bootstrap.agent.containers.mounts import normal, run_as, user_error
from agent_bootstrap.agent.runtimes.mount_list import is_in
from agent_bootstrap.agent.runtimes.task_root import is_shared, is_system, topmost
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.protocol import Bind, ContainerSpec
from agent_bootstrap.shell import MODULES

NAMES = ("python3", "python")
_LOOK = """
path=$1
case $path in
  */*) ;;
  *) path=$(command -v "$path") || exit 4 ;;
esac
if [ -d "$path" ]; then
  for name in python3 python; do
    if [ -x "$path/bin/$name" ]; then path=$path/bin/$name; break; fi
    if [ -L "$path/bin/$name" ]; then link=$path/bin/$name; fi
  done
fi
if [ ! -f "$path" ] || [ ! -x "$path" ]; then
  end=${link:-$path}
  for _ in 1 2 3 4 5 6 7 8; do
    next=$(readlink "$end") || break
    case $next in /*) end=$next ;; *) end=${end%/*}/$next ;; esac
  done
  printf '%s\n' "$end"
  exit 3
fi
printf '%s\\n' "$path"
readlink -f "$path"
config=${path%/*/*}/pyvenv.cfg
if [ -f "$config" ]; then head -c 65536 "$config"; fi
"""
_NOT_ON_PATH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonChoice:
    """Of a task or, where it makes none, of its agent."""

    interpreter: Interpreter | None = None
    """None: the agent's own."""
    prologue: tuple[str, ...] = ()
    user_binds: tuple[Bind, ...] = ()
    """Folders that the user's choice needs."""
    own_binds: tuple[Bind, ...] = ()
    """Those that the operator's choice needs."""

    @property
    def is_foreign(self) -> bool:
        """Variables may be meant for another Python than the agent's."""
        return self.interpreter is not None or bool(self.prologue)

    def write(self, place: ContainerDir) -> None:
        if self.interpreter is not None:
            _write_commands(place.rundet / "bin", self.interpreter)
            _write_packages(place.rundet / "packages")
        if self.prologue:
            path = place.rundet / "prologue.sh"
            path.write_text("\n".join([MODULES, *self.prologue, ""]))
            path.chmod(0o700)


def choose_python(
    spec: ContainerSpec,
    python: str,
    prologue: Sequence[str],
    *,
    agent: OsUser,
    task: OsUser,
) -> PythonChoice:
    """`python`, `prologue`: of the agent. Raises StartRefused. Blocks."""
    lines = (*prologue, *spec.options.prologue)
    wanted = spec.options.python or python
    if not wanted:
        return PythonChoice(prologue=lines)
    is_users = bool(spec.options.python)
    found = find_interpreter(
        wanted, agent=agent, task=task if is_users else agent, has_prologue=bool(lines)
    )
    binds = tuple(
        Bind(source=folder, target=folder, read_only=True)
        for folder in found.folders
        if not any(is_in(folder, normal(bind.target)) for bind in spec.binds)
    )
    return PythonChoice(
        interpreter=found,
        prologue=lines,
        user_binds=binds if is_users else (),
        own_binds=() if is_users else binds,
    )


def find_interpreter(
    wanted: str, *, agent: OsUser, task: OsUser, has_prologue: bool = False
) -> Interpreter:
    """`task`: with whose rights. Raises StartRefused: `wanted` is none, or would show a whole home folder."""
    if has_prologue and "/" not in wanted:
        return Interpreter(program=wanted)
    program, real, *lines = _look(wanted, agent=agent, task=task)
    settings = dict(map(_setting, lines))
    version = ""
    if "home" in settings:
        needed = {_prefix(program), os.path.dirname(settings["home"]), _prefix(real)}
        words = (settings.get("version_info") or settings.get("version", "")).split(".")
        version = ".".join(words[:2])
    else:
        program, needed = real, {_prefix(real)}  # it finds its library from where it really is
    folders = topmost(path for path in needed if not is_system(path))
    for folder in folders:
        if _is_home(folder, task):
            raise user_error(
                f"environment.python: {wanted} needs the whole of {folder} to be seen: use a Python in a folder of "
                "its own, such as a virtualenv"
            )
    return Interpreter(program=program, folders=tuple(folders), version=version)


def _look(wanted: str, *, agent: OsUser, task: OsUser) -> list[str]:
    """The interpreter, what it really is, and the lines of its pyvenv.cfg. Raises StartRefused."""
    command = ["sh", "-c", _LOOK, "sh", wanted]
    if task.uid == agent.uid:
        environ = {"PATH": search_path()}
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, errors="replace", check=False
        )
    else:
        done = run_as(task, command, path=search_path())
    lines = done.stdout.splitlines()
    if done.returncode == 0 and len(lines) >= 2:
        return lines
    if done.returncode == _NOT_ON_PATH:
        raise user_error(
            f"environment.python: {wanted} is not on the PATH of this machine: write its path, or load its module in "
            "environment.prologue"
        )
    leads = f" (it leads to {lines[0]})" if lines and lines[0] != wanted else ""
    raise user_error(
        f"environment.python: {wanted} is no program on this machine that {task.user} ({task.uid}) may run{leads}: "
        "name an interpreter, or the folder of a virtualenv, in folders that everybody may enter"
    )


def _setting(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key.strip().lower(), value.strip()


def _prefix(program: str) -> str:
    return os.path.dirname(os.path.dirname(program))


def _is_home(folder: str, task: OsUser) -> bool:
    with suppress(KeyError):
        if folder == pwd.getpwuid(task.uid).pw_dir:
            return True
    return is_shared(folder)


def _write_commands(folder: Path, chosen: Interpreter) -> None:
    """`python3` and `python` are the chosen one. A link would not do: a virtualenv knows itself by its path."""
    if chosen.program in NAMES:
        return
    for name in NAMES:
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(chosen.program)} "$@"\n')
        (folder / name).chmod(0o755)


def _write_packages(folder: Path) -> None:
    """`windlass.core` for another Python: it needs the standard library only."""
    folder.mkdir(mode=0o755)
    (folder / "windlass").symlink_to(Path(windlass.base.__file__).resolve().parent.parent)
