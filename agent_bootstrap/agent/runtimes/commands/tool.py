"""What the programs that run images have in common, and where they differ."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent_bootstrap.agent.containers.mounts import user_error
from agent_bootstrap.agent.runtimes.commands.user_namespaces import is_pause, is_shared
from agent_bootstrap.agent.runtimes.image_task import ImageTask
from agent_bootstrap.protocol import RegistryCredentials
from windlass.base.errors import InvalidConfig
from windlass.base.formats.image_reference import ImageReference

VERSION_LIMIT_S = 20.0
CLEAR_LIMIT_S = 60.0
LEAVE_TRIES, LEAVE_EVERY_S = 10, 0.1
"""What was just removed may still be ending."""
KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR")
KEPT_ENDS = ("_proxy", "_PROXY")
KEPT_STARTS = ("SSL_CERT_", "APPTAINER_", "SINGULARITY_", "ENROOT_", "CONTAINERS_")
SEPARATORS = ":,\\"
"""Of mounts on command lines."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """Those of a task's slots, by the identifiers of their makers."""

    nvidia: tuple[str, ...] = ()
    amd: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of the program. Secrets are in `environment` or in `files`, never in `words`."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: Mapping[Path, str] = field(default_factory=dict, repr=False)
    """Written with mode 0600 before it."""
    leaves: Path | None = None
    """A file with the id of Podman's pause process, to be ended then, unless others need it."""


class Tool(Protocol):
    """One of the programs. Nothing here looks at the machine."""

    @property
    def program(self) -> str: ...

    @property
    def shown(self) -> str:
        """For people: name and version."""
        ...

    @property
    def suffix(self) -> str:
        """Of the files that it makes of images; empty: it makes folders."""
        ...

    @property
    def adds_user(self) -> bool:
        """It puts whoever runs it into the image's passwd and group by itself."""
        ...

    def names(self, name: str) -> Iterable[str]:
        """What the image is called below `image_root`, by its name as users write it."""
        ...

    def runs(self, path: Path) -> bool:
        """As it is, without `make`."""
        ...

    def make(
        self, image: ImageReference, target: Path, login: RegistryCredentials | None, scratch: Path
    ) -> Sequence[ToolCall]:
        """The calls, one after another, that make `target`. `scratch`: a private folder. Raises StartRefused."""
        ...

    def run(self, task: ImageTask, image: str, sources: Sequence[str], gpus: Gpus) -> list[str]:
        """The command that becomes the task. `sources` are those of its mounts. Raises StartRefused."""
        ...

    def clear(self, container_id: str) -> ToolCall | None:
        """The call that removes what is left of a container that was killed. None: nothing ever is."""
        ...

    def environment(self, task: ImageTask, image: str, gpus: Gpus, scratch: Path) -> dict[str, str]:
        """What that command has beside the variables that every program has."""
        ...


def version_of(program: str, words: Sequence[str]) -> tuple[str, str]:
    """Path and version. Raises InvalidConfig: it is not here, or does not work."""
    path = shutil.which(program)
    if path is None:
        raise _useless(program, "there is no such program in PATH")
    try:
        told = subprocess.run(
            [path, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _useless(program, f"{path} does not answer") from None
    except OSError as error:
        raise _useless(program, f"{path}: {error.strerror}") from None
    if told.returncode != 0 or not told.stdout.strip():
        said = told.stderr.strip()[-300:] or f"exit code {told.returncode}"
        raise _useless(program, f"{path}: {said}")
    return path, told.stdout.split()[-1]


def run_quietly(command: ToolCall) -> None:
    """What goes wrong is not worth more than a line: it is done again before the directory goes. Blocks."""
    try:
        done = subprocess.run(
            command.words,
            env=environment(os.environ) | dict(command.environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CLEAR_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("%s: %s", command.words[0], error)
        return
    if done.returncode != 0:
        log.warning("%s: %s", command.words[0], done.stderr.strip()[-300:])
    if command.leaves is not None:
        _end_left(command.leaves)


def _end_left(file: Path) -> None:
    """If it is that one still: the number may be another's by now.

    It keeps namespaces that all containers of this user share, those of other jobs too: it stays while one is in them.
    """
    with suppress(OSError, ValueError):
        pid = int(file.read_text())
        for _ in range(LEAVE_TRIES):
            if not is_pause(pid):
                return
            if not is_shared(pid):
                os.kill(pid, signal.SIGKILL)
                return
            time.sleep(LEAVE_EVERY_S)


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """What of the agent's own variables its calls are given: nothing that is not meant for them. Pure."""
    return {
        name: value
        for name, value in own.items()
        if name in KEPT or name.endswith(KEPT_ENDS) or name.startswith(KEPT_STARTS)
    }


def require_plain(paths: Iterable[str], what: str, tool: str) -> None:
    """Raises StartRefused."""
    if any(set(path) & set(SEPARATORS) for path in paths):
        raise user_error(
            f"{what}: {tool} cannot mount paths with a comma, colon or backslash: rename it"
        )


def _useless(program: str, problem: str) -> InvalidConfig:
    text = f"container_runtime: {program} does not work here: {problem}"
    return InvalidConfig([text], what="agent options")
