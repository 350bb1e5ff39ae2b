"""A batch system's commands, and the directories of jobs, as another user: by `sudo -n -u USER`.

Whoever may submit a job as somebody may run any program as them: one rule for `/usr/bin/env` says just that, and what
the commands need of an environment stands behind it. Secrets go to standard input only.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from master.core.reasons import ReasonKind
from provisioner.batch.base import BatchSystem, JobRefused, NoAnswer
from provisioner.batch.commands import COMMAND_LIMIT_S, Commands, FinishedCommand
from provisioner.batch.disks import Disk
from windlass.base.errors import BatchSystemError

log = logging.getLogger(__name__)

SUDO = "sudo"
ENV = "/usr/bin/env"
_OF_SUDO = ("SUDO_COMMAND", "SUDO_USER", "SUDO_UID", "SUDO_GID", "MAIL")
"""Jobs inherit what sbatch sees, and these are none of theirs."""
_GRACE_S = 10.0
"""A command of a user is ended by `timeout`, as that user: the master may not signal what sudo runs."""
_ENDED_BY_TIMEOUT = (124, 137)
READ_LIMIT_S = 10.0
"""Of files of a user, who may have put anything in their places."""
_FULL = (errno.EDQUOT, errno.ENOSPC)
WRITE = """umask 077
mkdir -p -- "$1" && [ -O "$1" ] && cat > "$2.new" && mv -f -- "$2.new" "$2"
"""


class UserRefused(JobRefused):
    """sudo does not let this master be that user."""

    code = "user_refused"

    def __init__(self, user: str, said: str) -> None:
        super().__init__(
            f"sudo does not let the master run commands as {user} ({said}): an administrator of the site must allow "
            f"its user `NOPASSWD: {ENV}` as {user} in sudoers (docs/hpc/sysadmin.md)",
            kind=ReasonKind.MISCONFIGURED,
            passing=False,
        )


@dataclass(frozen=True, slots=True)
class Sudo:
    """How to become a user: the words before a command."""

    environment: Mapping[str, str]
    """What its commands are given; the rest is as sudo makes it."""

    def words(self, user: str) -> tuple[str, ...]:
        without = (word for name in _OF_SUDO for word in ("-u", name))
        given = (f"{name}={value}" for name, value in self.environment.items())
        return (SUDO, "-n", "-H", "-u", user, "--", ENV, *without, *given)


async def nobody_knows(user: str) -> Mapping[str, frozenset[str]] | None:
    """Which accounts a user may name."""
    return None


@dataclass(frozen=True, slots=True)
class SiteUsers:
    """A site as other users of the operating system than the master's own."""

    system: Callable[[str], BatchSystem]
    commands: Callable[[str], Commands]
    disk: Callable[[str], Disk]
    before: Callable[[str], Sequence[str]]
    """What stands before a command that runs as one of them."""
    accounts: Callable[[str], Awaitable[Mapping[str, frozenset[str]] | None]] = nobody_knows
    """As `Site.accounts`, of one of them."""


class UserCommands:
    """Implements `Commands`: as one user. Raises UserRefused where sudo does not allow that."""

    def __init__(self, commands: Commands, sudo: Sudo, user: str) -> None:
        self._commands = commands
        self._sudo = sudo
        self._user = user
        self._is_known = False
        """To be somebody else than root, whatever the name says."""

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        if not self._is_known:
            await self._require_no_root()
        return await self._run(words, stdin, limit_s)

    async def _require_no_root(self) -> None:
        done = await self._run(["id", "-u"], "", COMMAND_LIMIT_S)
        if not done.out.strip().isdigit():
            raise NoAnswer(f"id: {done.last}")
        if int(done.out) == 0:
            raise UserRefused(self._user, "that is root")
        self._is_known = True

    async def _run(self, words: Sequence[str], stdin: str, limit_s: float) -> FinishedCommand:
        before = self._sudo.words(self._user)
        bound = ("timeout", "-k", "5", f"{limit_s:g}")
        done = await self._commands.run(
            [*before, *bound, *words], stdin=stdin, limit_s=limit_s + _GRACE_S
        )
        if done.code in _ENDED_BY_TIMEOUT:
            raise NoAnswer(f"{words[0]} did not end within {limit_s:g} s")
        if done.code and _is_of_sudo(done.err):
            raise UserRefused(self._user, done.last.removeprefix("sudo: "))
        return done


class UserDisk:
    """Implements `Disk`: files of one user, who alone may read them. Called in threads that have no event loop."""

    def __init__(self, commands: UserCommands) -> None:
        self._commands = commands

    def write(self, file: Path, data: bytes) -> None:
        done = self._sh(WRITE, str(file.parent), str(file), stdin=data.decode())
        if done.code:
            number = next((one for one in _FULL if os.strerror(one) in done.err), 0)
            raise OSError(number, done.last, str(file))

    def tail(self, file: Path, count: int) -> bytes:
        done = self._read('[ ! -p "$2" ] && tail -c "$1" -- "$2"', str(count), str(file))
        if done.code:
            raise OSError(0, done.last, str(file))
        return done.out.encode()

    def remove(self, folder: Path) -> None:
        try:
            self._sh('rm -rf -- "$1"', str(folder))
        except BatchSystemError as error:
            log.warning("the directory of a job stays: %s: %s", folder, error.message)

    def has_entries(self, folder: Path) -> bool:
        return bool(self._read('ls -A -- "$1" 2>/dev/null | head -c 1', str(folder)).out)

    def _read(self, script: str, *arguments: str) -> FinishedCommand:
        """Who may not be asked any more has no files that can be read."""
        try:
            return self._sh(script, *arguments, limit_s=READ_LIMIT_S)
        except BatchSystemError as error:
            raise OSError(errno.EACCES, error.message, arguments[-1]) from None

    def _sh(
        self, script: str, *arguments: str, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        words = ["/bin/sh", "-c", script, "sh", *arguments]
        return asyncio.run(self._commands.run(words, stdin=stdin, limit_s=limit_s))


def _is_of_sudo(said: str) -> bool:
    """It prints these itself, last, for nothing follows; a warning about its host's name stands before other things."""
    lines = [line for line in said.splitlines() if line.strip()]
    return bool(lines) and lines[-1].startswith(("sudo: ", "Sorry, user "))
