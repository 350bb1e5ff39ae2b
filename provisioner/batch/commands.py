"""How a batch system's commands are run: on this machine here; `ssh.py` runs them on another one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_bootstrap.bounds import one_line
from provisioner.batch.base import NoAnswer

COMMAND_LIMIT_S = 60.0
KEPT = (
    "HOME",
    "USER",
    "LOGNAME",
    "SLURM_CONF",
    "PBS_CONF_FILE",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "TZ",
)
"""Of the environment. Other variables would change answers, and sbatch passes on all that it sees."""
OWN = frozenset({"HOME", "USER", "LOGNAME"})
SET = {"LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"}
PLACES = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/pbs/bin"


@dataclass(frozen=True, slots=True)
class FinishedCommand:
    """A command that ended."""

    code: int
    out: str = ""
    err: str = ""

    @property
    def last(self) -> str:
        """What it said last, on one line."""
        said = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return one_line("; ".join(said[-2:])) or f"exit code {self.code}"


class Commands(Protocol):
    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        """No shell. Raises NoAnswer if it cannot be run or does not end in time; it may have had its effect then."""
        ...


def command_environment(
    path: str, libraries: str, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The whole of it. `path`: folders to look for commands in, before the usual ones; `libraries`: LD_LIBRARY_PATH."""
    given = os.environ if environ is None else environ
    return {
        **{key: given[key] for key in KEPT if key in given},
        **({"LD_LIBRARY_PATH": libraries} if libraries else {}),
        **SET,
        "PATH": ":".join(filter(None, (path, given.get("PATH", ""), PLACES))),
    }


class LocalCommands:
    """Implements `Commands`: on this machine, as this user."""

    def __init__(
        self, *, path: str = "", libraries: str = "", environ: Mapping[str, str] | None = None
    ) -> None:
        """`path`: folders to look for commands in, before the usual ones; `libraries`: LD_LIBRARY_PATH."""
        self._environment = command_environment(path, libraries, environ)

    @property
    def for_others(self) -> dict[str, str]:
        """Of its environment what is not this user's own."""
        return {key: value for key, value in self._environment.items() if key not in OWN}

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            raise NoAnswer(f"{words[0]} cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(limit_s):
                out, err = await process.communicate(stdin.encode())
        except TimeoutError:
            text = f"{words[0]} did not end within {limit_s:g} s"
            raise NoAnswer(text, may_run=not await killed(process)) from None
        finally:
            await killed(process)
        code = process.returncode or 0
        return FinishedCommand(code, out.decode(errors="replace"), err.decode(errors="replace"))


async def killed(process: asyncio.subprocess.Process) -> bool:
    """It has ended. False: it belongs to another user, as sudo does, and nobody waits for it."""
    if process.returncode is None:
        try:
            process.kill()
        except PermissionError:
            return False
        except ProcessLookupError:
            pass
        await process.wait()
    return True
