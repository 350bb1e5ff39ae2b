"""A shell is sshd with a key of its own: whoever has it logs in as the task, with the task's environment."""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from windlass.base.errors import InvalidArgument
from windlass.core._info import ClusterInfo, run_dir
from windlass.core._session import TaskSession
from windlass.launch.entrypoint import TOLD_TO_END, program_environment, run_entrypoint
from windlass.launch.preparation import prepare
from windlass.launch.services.login_profile import write_greeting, write_profile
from windlass.launch.services.ports import listen_address, own_port
from windlass.launch.services.readiness import until_ready

__all__ = ["prepare", "start"]

PORT = "SHELL_PORT"
READY = "Server listening on"
CONFIG = """\
ListenAddress {address}
HostKey {folder}/id_rsa
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserEnvironment yes
StrictModes no
UsePAM no
AcceptEnv *
X11Forwarding yes
PrintMotd no
ClientAliveInterval 60
Subsystem sftp internal-sftp
"""
ROOT_NEEDS = 1 << 6 | 1 << 7 | 1 << 18
"""CAP_SETGID, CAP_SETUID, CAP_SYS_CHROOT."""
PRIVILEGE_SEPARATION = Path("/run/sshd")
"""An empty folder that sshd wants when it runs as root."""
_NOT_PASSED = re.compile(r"_|HOME|TERM|LANG|LC_.*|SHLVL|PWD|OLDPWD|.*(%%|\(\)).*")
"""Of the session itself, or functions of a shell."""


def start(info: ClusterInfo, session: TaskSession) -> int:
    """Serve logins until it is ended. The exit code of sshd, which does not end by itself: it says 0 to SIGTERM."""
    folder = run_dir() / "ssh"
    try:
        program = sshd()
        if os.getuid() == 0:
            require_rights(Path("/proc/self/status").read_text())
        account = own_account()
        greeting = folder / "greeting"
        watch = until_ready(
            READY,
            session,
            info,
            os_user=account.pw_name,
            on_end_known=partial(write_greeting, greeting),
        )
        with own_port(PORT, session, info) as port:
            environment = program_environment([program], os.environ)  # with that port
            write_access(folder, environment)
            write_profile(Path(account.pw_dir), environment.get("PATH", ""), greeting)
            command = [program, "-f", str(folder / "sshd_config"), "-p", str(port), "-D", "-e"]
            return run_entrypoint(command, session, info, watch=watch) or TOLD_TO_END
    finally:
        session.close()


def sshd() -> str:
    """Its absolute path: it starts itself again for each login. Raises InvalidArgument."""
    found = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        raise InvalidArgument(
            "there is no sshd here: add the package openssh-server to the image, or ask for it on this node"
        )
    return found


def require_rights(status: str) -> None:
    """As root sshd changes root and groups for each login. `status`: /proc/self/status. Raises InvalidArgument."""
    found = re.search(r"^CapEff:\s*(\w+)$", status, re.MULTILINE)
    if found is not None and int(found[1], 16) & ROOT_NEEDS != ROOT_NEEDS:
        raise InvalidArgument(
            "sshd cannot let anybody in as root here, where tasks have no capabilities: ask an administrator to link "
            "your user to one that is not root (det user link-with-agent-user)"
        )


def own_account() -> pwd.struct_passwd:
    """Whom sshd lets in: without root it can log in nobody but itself. Raises InvalidArgument."""
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:
        raise InvalidArgument(
            f"uid {os.getuid()} has no name here, and sshd logs in nobody without one: add it to /etc/passwd"
        ) from None


def write_access(folder: Path, environment: Mapping[str, str]) -> None:
    """sshd's configuration, and the key that opens the shell, with the environment of the sessions."""
    if os.getuid() == 0:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    (folder / "sshd_config").write_text(CONFIG.format(folder=folder, address=listen_address()))
    key = (folder / "id_rsa.pub").read_text()
    access = folder / "authorized_keys"
    access.touch(mode=0o600)
    access.write_text(",".join(passed(environment)) + " " + key)


def passed(environment: Mapping[str, str]) -> Iterator[str]:
    """Options of a line of authorized_keys, a variable each. They cannot hold a value that ends with a backslash."""
    for name, value in environment.items():
        if not _NOT_PASSED.fullmatch(name) and not value.endswith("\\"):
            text = f"{name}={value}".replace("\n", "\\n").replace('"', '\\"')
            yield f'environment="{text}"'
