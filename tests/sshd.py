"""A real sshd on 127.0.0.1, with a host key and a home folder of its own, that runs as whoever runs the tests."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from provisioner.batch.ssh import LoginNode
from tests.agent_home import AgentHome
from tests.real_cluster import WINDLASS, eventually, free_port
from windlass.install.hosts import parse_host
from windlass.install.ssh import Access

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
MISSING = "sshd is not installed (as root: apt-get install openssh-server)"

_PYTHON = """\
case "$1" in
-c) echo "python=$0 {version} {venv}" ;;
-m) mkdir -p "$3/bin"
    cat > "$3/bin/python" <<'END'
#!/bin/sh
{pip}
printf '#!/bin/sh\\nexec {windlass} "$@"\\n' > "${{0%/*}}/windlass"
chmod 755 "${{0%/*}}/windlass"
END
    chmod 755 "$3/bin/python" ;;
esac"""


def make_key(path: Path) -> Path:
    """A private key without a passphrase; the public one lies beside it."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


class Sshd:
    """One machine that can be logged in to. `home` is what its user has there."""

    def __init__(
        self,
        folder: Path,
        login_key: Path,
        environment: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        folder.mkdir(parents=True)
        self.address = address
        self.folder = folder
        self.home = AgentHome(folder / "home")
        self.port = free_port()
        self.host_key = make_key(folder / "host_key")
        self.authorized = folder / "authorized_keys"
        self.authorize(login_key)
        path = f"{self.home.bin}:/usr/bin:/bin"
        variables = {"HOME": str(self.home.home), "PATH": path, **(environment or {})}
        given = " ".join(f"{name}={value}" for name, value in variables.items())
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress {address}\nHostKey {self.host_key}\nPidFile none\n"
            f"AuthorizedKeysFile {self.authorized}\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
            f"AllowTcpForwarding yes\nSetEnv {given}\nMaxStartups 100\n"
            "Subsystem sftp internal-sftp\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def spec(self) -> str:
        return f"{getpass.getuser()}@{self.address}:{self.port}"

    def cut(self) -> None:
        """End the connections that are open."""
        assert self._process is not None
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections that are open stay so, and nothing answers there."""
        assert self._process is not None
        stopped = psutil.Process(self._process.pid).children(recursive=True)
        for process in stopped:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        try:
            yield
        finally:
            for process in stopped:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    @property
    def known_host(self) -> str:
        """Its line of known_hosts."""
        kind, key, *_ = self.host_key.with_suffix(".pub").read_text().split()
        return f"[{self.address}]:{self.port} {kind} {key}\n"

    def authorize(self, key: Path | None) -> None:
        """Let only this key log in."""
        self.authorized.write_text("" if key is None else key.with_suffix(".pub").read_text())

    def stub_python(
        self, *, version: str = "3.14", venv: int = 1, pip: str = "", windlass: str = WINDLASS
    ) -> None:
        """The machine's only Python: makes "environments" with this very installation, unless `pip` fails."""
        script = _PYTHON.format(version=version, venv=venv, pip=pip, windlass=windlass)
        for name in ("python3.14", "python3.13", "python3.12", "python3.11", "python3"):
            self.home.program(name, script)

    def start(self) -> None:
        assert SSHD is not None
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # as the package makes it at boot
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually("sshd listens", self._listens)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def end(self) -> None:
        self.stop()
        self.home.end()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.port)) == 0


@dataclass
class Login:
    """A login node that can be logged in to with a key, and is known."""

    sshd: Sshd
    key: Path
    known_hosts: Path

    def access(self) -> Access:
        return Access(
            identity=self.key, known_hosts=self.known_hosts, identity_option="ssh.key_file"
        )

    def provider_settings(self) -> dict[str, str]:
        """`ssh` of a provider section whose commands run here."""
        user, _, host = self.sshd.spec.partition("@")
        return {
            "host": host,
            "user": user,
            "key_file": str(self.key),
            "known_hosts": str(self.known_hosts),
        }

    def node(self) -> LoginNode:
        return LoginNode(parse_host(self.sshd.spec), self.access())


@contextmanager
def login_node(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    address: str = "127.0.0.1",
    started: Callable[[Callable[[], None]], None] = lambda start: start(),
) -> Iterator[Login]:
    """`environment`: of those who log in. `started`: starts it where it shall be."""
    folder.mkdir(parents=True, exist_ok=True)
    key = make_key(folder / "key")
    sshd = Sshd(folder / "login", key, environment, address)
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(sshd.known_host)
    try:
        started(sshd.start)
        yield Login(sshd, key, known_hosts)
    finally:
        sshd.end()
