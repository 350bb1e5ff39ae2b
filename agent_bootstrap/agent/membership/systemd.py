"""The agent as a service of systemd: of the machine's, or of a user's own."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent_bootstrap.agent.membership.places import UNIT, AgentPaths
from windlass.base.errors import WindlassError
from windlass.base.files import write_atomic

TIMEOUT_S = 60.0

_TEXT = """\
[Unit]
Description=Windlass agent: runs tasks of a GPU cluster
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
# Tasks outlive their agent: the next one takes them over.
KillMode=process
Restart=on-failure
RestartSec=10
# Tasks are in the cgroup of the service: one that runs out of memory must not end the agent.
OOMPolicy=continue
Delegate=yes
# From systemd 254 on; an earlier one says in its log that it does not know it, and the agent makes the group itself.
DelegateSubgroup=agent
TasksMax=infinity
LimitNOFILE=1048576
UMask=0077

[Install]
WantedBy={target}
"""


class ServiceError(WindlassError):
    """systemd did not do what it was asked for."""

    code = "service"


Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Systemd:
    """One unit. Every call may be repeated."""

    def __init__(
        self,
        places: AgentPaths,
        *,
        environ: Mapping[str, str] | None = None,
        run: Run = subprocess.run,
    ) -> None:
        self._places = places
        self._run = run
        self._environ = dict(os.environ if environ is None else environ)
        runtime = f"/run/user/{os.geteuid()}"
        if places.is_user and "XDG_RUNTIME_DIR" not in self._environ and Path(runtime).is_dir():
            self._environ["XDG_RUNTIME_DIR"] = runtime

    def problem(self) -> str:
        """Why there is no systemd to ask; empty if there is one."""
        try:
            done = self._systemctl("show", "--property=Version", check=False)
        except ServiceError as error:
            return error.message
        return "" if done.returncode == 0 else _said(done)

    def install(self, command: Sequence[str], *, restart: bool) -> None:
        """Run `command` now and after each boot. It is started again if the unit is another, or with `restart`."""
        unit = self._places.unit
        text = unit_text(command, user=self._places.is_user)
        changed = not unit.exists() or unit.read_text() != text
        if changed:
            unit.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(unit, text.encode(), mode=0o644, durable=True)
            self._systemctl("daemon-reload")
        self._systemctl("enable", UNIT)
        self._systemctl("restart" if changed or restart else "start", UNIT)

    def remove(self) -> None:
        """Stop it and forget it. Tasks go on."""
        if not self._places.unit.exists():
            return
        self._systemctl("disable", "--now", UNIT)
        self._places.unit.unlink(missing_ok=True)
        self._systemctl("daemon-reload")

    def state(self) -> str:
        """active, activating, failed, inactive, ..."""
        done = self._systemctl("is-active", UNIT, check=False)
        return done.stdout.strip() or _said(done)

    def log_command(self) -> str:
        flag = "--user-unit" if self._places.is_user else "--unit"
        return f"journalctl {flag} windlass-agent"

    def linger_hint(self) -> str:
        """That a user's services end with his last session; empty if they do not."""
        if not self._places.is_user or os.geteuid() == 0:
            return ""
        name = getpass.getuser()
        try:
            done = self._call(["loginctl", "show-user", name, "--property=Linger", "--value"])
        except ServiceError:
            return ""
        if done.stdout.strip() != "no":
            return ""
        return (
            f"the agent ends when {name} logs out; to keep it: sudo loginctl enable-linger {name}"
        )

    def _systemctl(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        scope = ["--user"] if self._places.is_user else []
        done = self._call(["systemctl", *scope, *words])
        if check and done.returncode != 0:
            raise ServiceError(f"systemctl {' '.join([*scope, *words])} failed: {_said(done)}")
        return done

    def _call(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return self._run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
                env=self._environ,
            )
        except FileNotFoundError:
            raise ServiceError(f"{command[0]} is not installed") from None
        except subprocess.TimeoutExpired:
            raise ServiceError(f"{' '.join(command)} did not end in {TIMEOUT_S:g} s") from None


def unit_text(command: Sequence[str], *, user: bool) -> str:
    target = "default.target" if user else "multi-user.target"
    return _TEXT.format(command=" ".join(map(_quoted, command)), target=target)


def _quoted(word: str) -> str:
    """As systemd reads it: no specifiers, no variables."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if set(word) & set(" '\"\\;") else escaped


def _said(done: subprocess.CompletedProcess[str]) -> str:
    text = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return text[-1] if text else f"exit code {done.returncode}"
