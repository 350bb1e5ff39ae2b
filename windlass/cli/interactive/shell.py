"""`det shell`: a login on a machine of the cluster, by ssh through the master."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Annotated, NoReturn

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.interactive.kinds import CliKind
from windlass.cli.interactive.launching import DetachOption, LaunchOptions, told
from windlass.cli.interactive.ssh_access import (
    SshAccess,
    access_of,
    checked_alias,
    forget,
    proxy_command,
)
from windlass.cli.interactive.verbs import TaskId, add_verbs
from windlass.cli.interactive.waiting import until_ready
from windlass.cli.output.text import notice
from windlass.sdk import interactive
from windlass.sdk.client import Client

SHELL = CliKind(
    wire=interactive.SHELL,
    name="shell",
    word="shell",
    fields=lambda one, config: [
        ("login", (one.get("agentUserGroup") or {}).get("user") or "root"),
        ("public key", str(one.get("publicKey") or "").strip()),
    ],
    forget=forget,
)
app = SHELL.group()
REST_IS_SSHS = {"allow_interspersed_args": False}
INSTALLED = """\
ssh, scp, rsync and editors know shell {id} as {alias}:
  ssh {alias}
  scp FILE {alias}:
  rsync -a DIRECTORY {alias}:
  code --remote ssh-remote+{alias}"""

LONG_OPTIONS = {"--show-ssh-command": "show_ssh_command", "--vscode": "vscode"}
"""Those of `Opening`, as users write them."""

SshOptions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SSH_OPTIONS] [COMMAND]",
        help="Options of ssh, such as -L 8888:localhost:8888, and a command to run instead of a login.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a shell is opened; `open` does it as they say."""

    show_ssh_command: Annotated[
        bool, typer.Option("--show-ssh-command", help="Print the command that ssh is called by.")
    ] = False
    vscode: Annotated[
        bool, typer.Option("--vscode", help="Open it in Visual Studio Code, not here.")
    ] = False

    def behind_the_id(self, words: Sequence[str]) -> tuple[Opening, Sequence[str]]:
        """With those of these options that stand first among the words for ssh, which has no long ones; the others."""
        taken = tuple(takewhile(LONG_OPTIONS.__contains__, words))
        changes = {LONG_OPTIONS[word]: True for word in taken}
        return replace(self, **changes), words[len(taken) :]

    def open(self, client: Client, shell_id: str, words: Sequence[str]) -> None:
        """Log in, as the last thing that this process does."""
        if self.vscode and words:
            raise InvalidArgument("--vscode takes no options of ssh and no command")
        access = _access(client, shell_id)
        if self.vscode:
            _open_editor(access)
            return
        command = access.command(words)
        if self.show_ssh_command:
            notice(shlex.join(command))
        if not words:
            notice(
                f"Shell {shell_id} keeps running when you log out. "
                f"Open it: `det shell open {shell_id}`. Stop it: `det shell kill {shell_id}`"
            )
        _become(command)


@app.command(context_settings=REST_IS_SSHS)
@with_groups
def start(
    ctx: typer.Context,
    ssh_options: SshOptions = None,
    *,
    given: LaunchOptions,
    how: Opening,
    detach: DetachOption = False,
) -> None:
    """Start a shell, wait until it serves, and log in. It keeps running when you log out: `det shell kill` ends it.

    `det shell start --config resources.slots=2` starts one with two GPUs,
    `det shell start -- -L 6006:localhost:6006` leads a port of this machine to it.
    """
    if detach and ssh_options:
        raise InvalidArgument(
            f"-d only starts the shell, without ssh: {shlex.join(ssh_options)} would have no effect. "
            "Give that to `det shell open ID`"
        )
    client = client_for(ctx)
    answer = given.launch(client, SHELL, given.document())
    if detach:
        typer.echo(answer["shell"]["id"])
    else:
        how.open(client, told(SHELL, answer), ssh_options or ())


@app.command("open", context_settings=REST_IS_SSHS)
@with_groups
def open_(
    ctx: typer.Context, task_id: TaskId, ssh_options: SshOptions = None, *, how: Opening
) -> None:
    """Log in to a shell, or run a command in it. The exit code is that of ssh, which is the command's.

    `det shell open ID nvidia-smi` runs a command,
    `det shell open ID -L 6006:localhost:6006` leads a port of this machine to it.
    """
    client = client_for(ctx)
    how, words = how.behind_the_id(ssh_options or ())
    how.open(client, SHELL.full_id(client, task_id), _own(words))


@app.command("show-ssh-command", context_settings=REST_IS_SSHS)
def show_ssh_command(ctx: typer.Context, task_id: TaskId, ssh_options: SshOptions = None) -> None:
    """Print the ssh command that logs in to a shell. The files that it names are kept."""
    client = client_for(ctx)
    access = _access(client, SHELL.full_id(client, task_id))
    typer.echo(shlex.join(access.command(_own(ssh_options))))


@app.command("ssh-config")
def ssh_config(
    ctx: typer.Context,
    task_id: TaskId,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Name of the host. Default: windlass- and the start of the id.",
            show_default=False,
        ),
    ] = None,
    install: Annotated[
        bool,
        typer.Option("--install", help="Let ~/.ssh/config include it, until the shell is killed."),
    ] = False,
) -> None:
    """Print the Host block of a shell, for ssh, scp, rsync and editors."""
    alias = None if name is None else checked_alias(name)
    client = client_for(ctx)
    access = _access(client, SHELL.full_id(client, task_id))
    alias = alias or access.alias
    if install:
        access.install(alias)
        notice(INSTALLED.format(id=access.shell_id, alias=alias))
    else:
        typer.echo(access.block(alias), nl=False)


add_verbs(app, SHELL)


def _access(client: Client, shell_id: str) -> SshAccess:
    """Of one that serves; its files are written."""
    shell = until_ready(client, SHELL, shell_id)
    access = access_of(shell, proxy_command(client.session.url, os.environ))
    access.write()
    return access


def _own(words: Sequence[str] | None) -> Sequence[str]:
    """The `--` before them, if there is one, is ours."""
    given = words or ()
    return given[1:] if given and given[0] == "--" else given


def _become(command: Sequence[str]) -> NoReturn:
    """This process is that program from here on, with its exit code. Raises InvalidArgument if it is not here."""
    if shutil.which(command[0]) is None:
        raise InvalidArgument(f"there is no {command[0]} here: install the client of OpenSSH")
    signal.signal(
        signal.SIGPIPE, signal.SIG_DFL
    )  # Python ignores it, and who is executed would, too
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp(command[0], list(command))  # noqa: S606 - words, and no shell


def _open_editor(access: SshAccess) -> None:
    """Or say how, where it is not installed."""
    access.install(access.alias)
    command = ["code", "--remote", f"ssh-remote+{access.alias}"]
    if shutil.which(command[0]) is None or not sys.stdout.isatty():
        typer.echo(shlex.join(command))
    else:
        _become(command)
