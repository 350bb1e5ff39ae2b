"""How ssh of this machine reaches a shell: its key, whom to take for it, and the way there, in files that only the user
may read.

All that comes from the master is checked before it goes into a file that ssh reads: there a line more is an order.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import InvalidArgument, PermissionDenied, WindlassError
from windlass.base.files import write_atomic
from windlass.cli.job.words import is_task_id
from windlass.sdk.wire import Json

_USER = re.compile(r"[\w.][\w.@\\-]*\$?")
_PUBLIC_KEY = re.compile(r"([a-z0-9@.-]+) ([A-Za-z0-9+/=]+)(?: .*)?")
_ALIAS = re.compile(r"[A-Za-z0-9][\w.-]*")
ALIVE_S = 30
"""Seconds between two signs of life: what lies between may forget connections that say nothing."""


class NotAShell(WindlassError):
    """What the master says of a shell does not look like one."""

    code = "not_a_shell"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """One shell. Its files are in `folder`."""

    shell_id: str
    user: str
    private_key: str
    public_key: str
    proxy: Sequence[str]
    """The program that carries the bytes, before the id of the shell."""

    @property
    def folder(self) -> Path:
        return folder_of(self.shell_id)

    @property
    def settings(self) -> dict[str, str]:
        """Of ssh, as `ssh_config` and `-o` have them."""
        return {
            "User": self.user,
            "IdentityFile": _quoted(self.folder / "key"),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": _quoted(self.folder / "known_hosts"),
            "StrictHostKeyChecking": "yes",
            "ServerAliveInterval": str(ALIVE_S),
            "ProxyCommand": f"{shlex.join(self.proxy).replace('%', '%%')} %h",
        }

    @property
    def alias(self) -> str:
        """The name that it was installed by, or else would be."""
        config = self.folder / "config"
        installed = config.read_text().split()[1:2] if config.exists() else []
        return installed[0] if installed else f"windlass-{self.shell_id[:8]}"

    def write(self) -> None:
        """The key and the known host."""
        for folder in (Path.home() / ".ssh", self.folder.parent, self.folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        write_atomic(self.folder / "key", f"{self.private_key.rstrip()}\n".encode())
        known = f"{self.shell_id} {self.public_key}\n"
        write_atomic(self.folder / "known_hosts", known.encode())

    def command(self, options: Sequence[str] = ()) -> list[str]:
        """ssh, and what the user adds."""
        given = [
            word for name, value in self.settings.items() for word in ("-o", f"{name}={value}")
        ]
        return ["ssh", *given, self.shell_id, *options]

    def block(self, alias: str) -> str:
        """Of `ssh_config`."""
        lines = {"HostName": self.shell_id, **self.settings}
        return "".join([f"Host {alias}\n", *(f"    {key} {lines[key]}\n" for key in lines)])

    def install(self, alias: str) -> None:
        """ssh, scp, rsync and editors know the shell by this name from now on."""
        write_atomic(self.folder / "config", self.block(alias).encode())
        include(Path.home() / ".ssh" / "config", f"Include {_quoted(self.folder.parent)}/*/config")


def access_of(shell: Json, proxy: Sequence[str]) -> SshAccess:
    """Raises PermissionDenied for whom the master does not give the key, NotAShell."""
    shell_id, user = str(shell.get("id")), (shell.get("agentUserGroup") or {}).get("user") or "root"
    if not shell.get("privateKey"):
        raise PermissionDenied(
            f"Shell {shell_id} is one of {shell.get('username')}, who alone, beside administrators, may open it"
        )
    public = _PUBLIC_KEY.fullmatch(str(shell.get("publicKey")).strip())
    if not is_task_id(shell_id) or not _USER.fullmatch(user) or public is None:
        raise NotAShell(f"the master does not describe shell {shell_id} as one: update this client")
    return SshAccess(
        shell_id=shell_id,
        user=user,
        private_key=str(shell["privateKey"]),
        public_key=f"{public[1]} {public[2]}",
        proxy=proxy,
    )


def proxy_command(url: str, environ: Mapping[str, str]) -> list[str]:
    """This installation's `det tunnel`, which trusts the master as this command does; ssh adds the shell."""
    words = [sys.executable, "-P", "-m", "windlass", "-m", url, "tunnel"]
    if trusted := environ.get("DET_MASTER_CERT_FILE"):
        is_file = trusted.lower() != "noverify"
        words += ["--cert-file", str(Path(trusted).absolute()) if is_file else trusted]
    if name := environ.get("DET_MASTER_CERT_NAME"):
        words += ["--cert-name", name]
    return words


def folder_of(shell_id: str) -> Path:
    return Path.home() / ".ssh" / "windlass" / shell_id


def forget(shell_id: str) -> None:
    """It has ended: its key opens nothing any more."""
    if is_task_id(shell_id):
        shutil.rmtree(folder_of(shell_id), ignore_errors=True)


def checked_alias(alias: str) -> str:
    """Raises InvalidArgument."""
    if not _ALIAS.fullmatch(alias):
        raise InvalidArgument(f'--name {alias}: expected letters, digits, ".", "_" and "-"')
    return alias


def include(config: Path, line: str) -> None:
    """As the first line of a configuration of ssh, where it counts for all hosts, unless it is there."""
    config = Path(os.path.realpath(config))
    text = config.read_text() if config.exists() else ""
    if line not in text.splitlines():
        config.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = config.stat().st_mode & 0o777 if config.exists() else 0o600
        write_atomic(config, f"{line}\n\n{text}".encode(), mode=mode)


def _quoted(path: Path) -> str:
    """As ssh reads a path."""
    text = str(path).replace("%", "%%")
    return f'"{text}"' if " " in text else text
