"""One SSH connection: known hosts only, time-outs on everything, commands as lists of words."""

from __future__ import annotations

import base64
import getpass
import hashlib
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from windlass.base.errors import WindlassError
from windlass.install.hosts import SshHost, parse_host

T = TypeVar("T")
CONNECT_S = 15.0
RETRY_S = 0.1
SILENCE_S = 600.0
"""A command that says nothing for this long is given up; installing packages says little."""
MAX_OUTPUT = 1024 * 1024
_SUDO = ("sudo", "-n", "--")
_SUDO_ASKS = ("sudo", "-k", "-S", "-p", "", "--")
"""Asks each time, whatever it remembers."""
SSH_DIR = Path("~/.ssh")
GLOBAL_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")


class HostError(WindlassError):
    """Something failed on one machine, at one step."""

    code = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How machines are reached, the same for all."""

    identity: Path | None = None
    known_hosts: Path | None = None
    """Instead of the user's and the machine's."""
    jump: str | None = None
    identity_option: str = "--identity"
    """What `identity` is called where it can be given."""
    sudo_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCommand:
    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """What a program said last, on either stream."""
        lines = [line.strip() for line in (*self.out.splitlines(), *self.err.splitlines())]
        return next((line for line in reversed(lines) if line), f"exit code {self.code}")


class RemoteMachine:
    """A connected machine. A context manager."""

    def __init__(self, host: SshHost, access: Access) -> None:
        """Raises HostError."""
        self._password = access.sudo_password
        self._clients: list[paramiko.SSHClient] = []
        self._sudo: tuple[str, ...] = ()
        try:
            way = None
            jump = access.jump or _own_configuration(host.name).get("proxyjump")
            if jump and jump != "none":
                way = self._through(parse_host(str(jump)), host, access)
            self._client = self._connect(host, access, way)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        script: str,
        *words: str,
        given: bytes = b"",
        silence_s: float = SILENCE_S,
        most: int = MAX_OUTPUT,
    ) -> FinishedCommand:
        """Run a script of the shell with these words as $1, $2, ... Raises HostError if the connection is lost.

        One that has fallen silent counts as lost, and is closed: TCP alone would take a quarter of an hour to say so.
        `most`: bytes that are read of each stream. Raises HostError for a program that says more.
        """
        command = shlex.join([*self._sudo, "sh", "-c", script, "sh", *words])
        if self._sudo == _SUDO_ASKS:
            given = (self._password or "").encode() + b"\n" + given
        try:
            return self._run(command, given, silence_s, most)
        except TimeoutError:
            self.close()
            raise HostError(f"no answer for {silence_s:g} s") from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostError(f"the connection was lost: {_text(error)}") from None

    def become_root(self) -> None:
        """Run all that follows as root. Raises HostError.

        A password is sent only where sudo does ask for it: else it would be the first line of what the command reads.
        """
        done = FinishedCommand(code=1, out="", err="")
        for way in (_SUDO, _SUDO_ASKS) if self._password is not None else (_SUDO,):
            self._sudo = way
            done = self.run("id -u")
            if done.code == 0 and done.out.strip() == "0":
                return
        self._sudo = ()
        raise HostError(
            f"{done.last_line}: give --ask-sudo-pass, log in as root, or install for the user alone with --user"
        )

    def close(self) -> None:
        for client in reversed(self._clients):
            client.close()

    def __enter__(self) -> RemoteMachine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        transport = self._client.get_transport()
        return transport is not None and transport.is_active()

    def files(self) -> paramiko.SFTPClient:
        """Raises HostError."""

        def begin(channel: paramiko.Channel) -> paramiko.SFTPClient:
            channel.invoke_subsystem("sftp")
            return paramiko.SFTPClient(channel)

        return self._opened(begin, late="no SFTP there: ", lost="no SFTP there: ")

    def program(self, command: str) -> paramiko.Channel:
        """A command of the shell that runs, with its input and output. Raises HostError."""

        def begin(channel: paramiko.Channel) -> paramiko.Channel:
            channel.exec_command(command)
            return channel

        return self._opened(begin, late="", lost="the connection was lost: ")

    def _opened(self, begin: Callable[[paramiko.Channel], T], *, late: str, lost: str) -> T:
        """`late`, `lost`: before what is said of no answer, and of an error."""
        try:
            transport = self._client.get_transport()
            if transport is None:
                raise EOFError("not connected")
            with self._answers_within(CONNECT_S):
                return begin(transport.open_session(timeout=CONNECT_S))
        except TimeoutError:
            raise HostError(f"{late}no answer for {CONNECT_S:g} s") from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostError(f"{lost}{_text(error)}") from None

    def keep_alive(self, every_s: int) -> None:
        """Notice within some of them that nobody answers any more."""
        if (transport := self._client.get_transport()) is not None:
            transport.set_keepalive(every_s)

    def _run(self, command: str, given: bytes, silence_s: float, most: int) -> FinishedCommand:
        transport = self._client.get_transport()
        if transport is None:
            raise EOFError("not connected")
        with _session_of(transport) as channel:
            channel.settimeout(silence_s)
            with self._answers_within(CONNECT_S):
                channel.exec_command(command)
            try:
                channel.sendall(given)
                channel.shutdown_write()
            except OSError as error:
                if isinstance(error, TimeoutError):
                    raise
                # The program ended without reading it all: what it said tells why.
            out = _all_of(channel.makefile("rb"), most)
            err = _all_of(channel.makefile_stderr("rb"), most)
            if not channel.status_event.wait(silence_s):
                raise TimeoutError
            return FinishedCommand(
                code=channel.exit_status,
                out=out.decode(errors="replace"),
                err=err.decode(errors="replace"),
            )

    @contextmanager
    def _answers_within(self, limit_s: float) -> Iterator[None]:
        """paramiko waits for some answers for ever; a connection that is closed ends that. Raises TimeoutError."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.close()

        timer = threading.Timer(limit_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, EOFError, paramiko.SSHException):
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()

    def _connect(self, host: SshHost, access: Access, way: Any = None) -> paramiko.SSHClient:
        own = _own_configuration(host.name)
        name = str(own.get("hostname", host.name))
        port = host.port or int(own.get("port", 22))
        user = host.user or str(own.get("user", "") or getpass.getuser())
        identities: Any = [str(access.identity)] if access.identity else own.get("identityfile")
        at = f"{user}@{name}:{port}"
        client = paramiko.SSHClient()
        self._clients.append(client)
        for file in _known_hosts(access):
            client.load_system_host_keys(str(file))
        client.set_missing_host_key_policy(_Reject(access))
        try:
            client.connect(
                name,
                port,
                username=user,
                key_filename=identities or None,
                look_for_keys=not identities,
                timeout=CONNECT_S,
                banner_timeout=CONNECT_S,
                auth_timeout=CONNECT_S,
                channel_timeout=CONNECT_S,
                sock=way,
            )
        except HostError:
            raise
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostError(_why(error, at, access)) from None
        return client

    def _through(self, jump: SshHost, to: SshHost, access: Access) -> Any:
        """A channel of the jump host to the machine. Raises HostError."""
        transport = self._connect(jump, access).get_transport()
        own = _own_configuration(to.name)
        target = (str(own.get("hostname", to.name)), to.port or int(own.get("port", 22)))
        try:
            if transport is None:
                raise EOFError
            return transport.open_channel("direct-tcpip", target, ("", 0), timeout=CONNECT_S)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostError(
                f"{jump.spec} does not connect to {target[0]}:{target[1]}: {_text(error)}"
            ) from None


def _session_of(transport: paramiko.Transport) -> paramiko.Channel:
    """sshd counts a session until it has seen its end: one more than it takes is refused, and taken a moment later.

    Of two threads that are refused at once, paramiko tells one by what, the other only that it failed.
    """
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            return transport.open_session(timeout=CONNECT_S)
        except paramiko.SSHException:
            if not transport.is_active() or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


def _all_of(stream: Any, most: int) -> bytes:
    """What is not read would hold the program, and look like silence."""
    said = bytes(stream.read(most + 1))
    if len(said) > most:
        raise HostError(f"its output is longer than {most} bytes")
    return said


class _Reject(paramiko.MissingHostKeyPolicy):
    """Nobody is there to be asked."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
        host, _, port = hostname.removeprefix("[").partition("]:")
        scan = f"ssh-keyscan {f'-p {port} ' if port else ''}{host}"
        file = self._access.known_hosts or SSH_DIR / "known_hosts"
        raise HostError(
            f"its key is not known here ({key.get_name()} SHA256:{digest}): compare it with the machine's own "
            f"(ssh-keygen -lf /etc/ssh/ssh_host_*.pub), then add it: {scan} >> {file}"
        )


def _own_configuration(name: str) -> dict[str, Any]:
    """What ~/.ssh/config says of a machine."""
    file = (SSH_DIR / "config").expanduser()
    if not file.is_file():
        return {}
    try:
        return dict(paramiko.SSHConfig.from_path(str(file)).lookup(name))
    except (paramiko.SSHException, OSError, UnicodeDecodeError):
        return {}


def _known_hosts(access: Access) -> Iterable[Path]:
    if access.known_hosts is not None:
        return (access.known_hosts,)
    files = ((SSH_DIR / "known_hosts").expanduser(), GLOBAL_KNOWN_HOSTS)
    return [file for file in files if file.is_file()]


def _why(error: Exception, at: str, access: Access) -> str:
    match error:
        case paramiko.BadHostKeyException():
            file = access.known_hosts or SSH_DIR / "known_hosts"
            return (
                f"{at} shows another key than the one in {file}: the machine was set up again, or somebody else "
                f"answers there. If it is right, remove the old one: ssh-keygen -f {file} -R '{error.hostname}'"
            )
        case paramiko.PasswordRequiredException():
            return f"{at}: the private key is encrypted: load it into an agent first (ssh-add)"
        case paramiko.AuthenticationException():
            return (
                f"{at} accepts none of our keys: give {access.identity_option}, load a key into an agent (ssh-add), "
                "or copy one there (ssh-copy-id)"
            )
        case socket.gaierror():
            return f"{at}: the name is not known"
        case TimeoutError():
            return f"{at} does not answer within {CONNECT_S:g} s"
    return f"cannot connect to {at}: {_text(error)}"


def _text(error: Exception) -> str:
    if isinstance(error, NoValidConnectionsError):
        inner = next(iter(error.errors.values()))
        return str(getattr(inner, "strerror", "") or inner)
    return str(getattr(error, "strerror", "") or error) or type(error).__name__
