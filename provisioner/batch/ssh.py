"""A login node over SSH: commands of the batch system, and the directories of jobs, with one connection for all."""

from __future__ import annotations

import asyncio
import errno
import logging
import stat
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath

import paramiko

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import COMMAND_LIMIT_S, KEPT, PLACES, SET, FinishedCommand
from windlass.install.hosts import SshHost
from windlass.install.ssh import Access, HostError, RemoteMachine

log = logging.getLogger(__name__)

MOST_AT_ONCE = 6
"""Commands; sshd takes ten sessions on a connection, of which SFTP is one."""
KEEP_ALIVE_S = 15
MOST_OUTPUT = 256 * 1024**2
"""A listing of all jobs of a large site is some ten MB."""
_LOST = -1
"""The exit status of a command whose connection was lost."""
_KEPT = " ".join(f'${{{name}+"{name}=${name}"}}' for name in KEPT)
_SET = " ".join(f"{key}={value}" for key, value in SET.items())
ENVIRONMENT = (
    f'exec env -i {_KEPT} {_SET} PATH="${{path:+$path:}}$PATH:{PLACES}" '
    '${libraries:+LD_LIBRARY_PATH="$libraries"}'
)
"""For a script of the shell there: runs what follows in a small, known environment."""
_SCRIPT = f'path=$1 libraries=$2 limit=$3; shift 3; {ENVIRONMENT} timeout -k 5 "$limit" "$@"'
"""Nothing else ends a command there when nobody waits for it any more."""
_TOO_LONG = (124, 137)
_GRACE_S = 10.0
SFTP_SILENCE_S = 60.0
"""For one answer."""


class LoginNode:
    """Connects when it is first needed, and again after the connection was lost. Blocking, for any thread."""

    def __init__(self, host: SshHost, access: Access) -> None:
        self._host = host
        self._access = access
        self._machine: RemoteMachine | None = None
        self._files: paramiko.SFTPClient | None = None
        self._connecting = threading.Lock()

    def machine(self) -> RemoteMachine:
        """Raises NoAnswer."""
        with self._connecting:
            if self._machine is None or not self._machine.is_connected:
                self._drop()
                try:
                    self._machine = RemoteMachine(self._host, self._access)
                except HostError as error:
                    raise NoAnswer(f"login node {self._host.spec}: {error.message}") from None
                self._machine.keep_alive(KEEP_ALIVE_S)
            return self._machine

    def files(self) -> paramiko.SFTPClient:
        """Raises NoAnswer."""
        machine = self.machine()
        with self._connecting:
            if self._files is None:
                try:
                    self._files = machine.files()
                except HostError as error:
                    raise NoAnswer(f"login node {self._host.spec}: {error.message}") from None
                if (channel := self._files.get_channel()) is not None:
                    channel.settimeout(SFTP_SILENCE_S)
            return self._files

    def run(
        self, script: str, *words: str, given: bytes = b"", silence_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        """A script of the shell there. Raises NoAnswer; then it may have had its effect."""
        try:
            done = self.machine().run(
                script, *words, given=given, silence_s=silence_s, most=MOST_OUTPUT
            )
        except HostError as error:
            text = f"login node {self._host.spec}: {error.message}"
            raise NoAnswer(text, may_run=True) from None
        if done.code == _LOST:
            text = f"login node {self._host.spec}: the connection was lost"
            raise NoAnswer(text, may_run=True)
        return FinishedCommand(done.code, done.out, done.err)

    def close(self) -> None:
        """What runs over it ends with NoAnswer; the next call connects again."""
        with self._connecting:
            self._drop()

    def _drop(self) -> None:
        if self._machine is not None:
            self._machine.close()
        self._machine = self._files = None


class SshCommands:
    """Implements `Commands`: on a login node, as the user who logs in there."""

    def __init__(self, login: LoginNode, *, path: str = "", libraries: str = "") -> None:
        """`path`: folders there to look for commands in, before the usual ones; `libraries`: LD_LIBRARY_PATH."""
        self._login = login
        self._path = path
        self._libraries = libraries
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="login-node")

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        given = (self._path, self._libraries, f"{limit_s:g}", *words)
        call = partial(self._login.run, given=stdin.encode(), silence_s=limit_s + _GRACE_S)
        loop = asyncio.get_running_loop()
        done = await loop.run_in_executor(self._threads, partial(call, _SCRIPT, *given))
        if done.code in _TOO_LONG:
            raise NoAnswer(f"{words[0]} did not end within {limit_s:g} s")
        if done.code == 127 and words[0] in done.err:
            raise NoAnswer(f"{words[0]} cannot be run: {done.last}")
        return done


class SftpDisk:
    """Implements `Disk`: the login node's."""

    def __init__(self, login: LoginNode) -> None:
        self._login = login
        self._alone = threading.Lock()
        """paramiko gives an answer to any thread that reads: another one's is lost."""

    def write(self, file: Path, data: bytes) -> None:
        path = PurePosixPath(file)
        new = f"{path}.new"
        with self._files_for(file) as files:
            self._make(files, path.parent)
            with files.open(new, "wb") as opened:
                files.chmod(new, stat.S_IRUSR | stat.S_IWUSR)
                opened.set_pipelined(True)
                opened.write(data)
            files.posix_rename(new, str(path))

    def tail(self, file: Path, count: int) -> bytes:
        with self._files_for(file) as files:
            # Tasks may write there: no link to another file, no pipe that would hold up all who wait for SFTP.
            _require_file(files.lstat(str(file)))
            with files.open(str(file), "rb") as opened:
                found = opened.stat()
                _require_file(found)
                opened.seek(max(0, (found.st_size or 0) - count))
                return opened.read(count)

    def remove(self, folder: Path) -> None:
        try:
            self._login.run('rm -rf -- "$1"', str(folder))
        except NoAnswer as error:
            log.warning("the directory of a job stays: %s: %s", folder, error.message)

    def has_entries(self, folder: Path) -> bool:
        """Where this machine sees the same files."""
        return any(folder.glob("*"))

    @staticmethod
    def _make(files: paramiko.SFTPClient, folder: PurePosixPath) -> None:
        missing = []
        while not _exists(files, folder):
            missing.append(folder)
            folder = folder.parent
        for one in reversed(missing):
            with suppress(OSError):
                files.mkdir(str(one), 0o700)

    @contextmanager
    def _files_for(self, file: Path) -> Iterator[paramiko.SFTPClient]:
        """For one thread. A lost connection says nothing of the file; any other error is the file's."""
        with self._alone:
            files = self._login.files()
            try:
                yield files
            except (OSError, EOFError, paramiko.SSHException) as error:
                channel = files.get_channel()
                is_open = channel is not None and not channel.closed
                if is_open and isinstance(error, OSError) and not isinstance(error, TimeoutError):
                    text = str(error.strerror or error)
                    raise OSError(error.errno or errno.EIO, text, str(file)) from None
                self._login.close()
                raise NoAnswer(
                    f"the connection to the login node was lost: {error or type(error).__name__}"
                ) from None


def _require_file(found: paramiko.SFTPAttributes) -> None:
    if not stat.S_ISREG(found.st_mode or 0):
        raise OSError(errno.EINVAL, "it is no file")


def _exists(files: paramiko.SFTPClient, path: PurePosixPath) -> bool:
    try:
        files.stat(str(path))
    except FileNotFoundError:
        return False
    return True
