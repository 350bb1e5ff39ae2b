"""`windlass agent join` and `leave`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from agent_bootstrap.agent.command_errors import told_errors
from agent_bootstrap.agent.membership.join import JoinOptions, ServiceMode, join, run_command
from agent_bootstrap.agent.membership.leave import Farewell, joined_options, leave
from agent_bootstrap.agent.membership.places import places
from agent_bootstrap.agent.options import one_token
from agent_bootstrap.agent.trust_options import NO_TRUST, TrustOptions
from windlass.base.errors import InvalidArgument
from windlass.base.formats.durations import parse_duration
from windlass.base.formats.plurals import counted
from windlass.base.option_groups import with_groups

TOKEN_VARIABLE = "WINDLASS_JOIN_TOKEN"  # noqa: S105 - the name of a variable

UserOption = Annotated[
    bool | None,
    typer.Option(
        "--user/--system",
        help="Use the folders and the systemd of this user, or those of root. Default: by who runs it.",
        show_default=False,
    ),
]


@with_groups
def join_command(
    url: Annotated[str, typer.Argument(help="URL of the master: https://host:port.")],
    token: Annotated[
        str | None,
        typer.Option(
            help="Join token. Other users of this machine can read it while the command runs.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"Read the join token from this file, or from standard input (-). Or set {TOKEN_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
    pool: Annotated[
        str, typer.Option(help="Join this resource pool. Default: that of the token.")
    ] = "",
    agent_id: Annotated[
        str | None, typer.Option(help="Use this id, unique in the cluster. Default: the host name.")
    ] = None,
    trust: TrustOptions = NO_TRUST,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Write this key to agent.yaml, for example label=rack-7. May be repeated.",
        ),
    ] = None,
    no_service: Annotated[
        bool,
        typer.Option("--no-service", help="Make no systemd unit; print how to run the agent."),
    ] = False,
    foreground: Annotated[
        bool,
        typer.Option("--foreground", help="Make no systemd unit; run the agent in the foreground."),
    ] = False,
    user: UserOption = None,
    wait: Annotated[
        str, typer.Option(help="Wait this long for the agent to connect: 30s, 2m.")
    ] = "1m",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make this machine an agent: ask the master, write agent.yaml, start the agent as a systemd service.

    It may be repeated: a machine that has joined needs no token, and what an operator wrote to agent.yaml stays. The
    token is not kept; the agent proves itself with a credential that it makes itself.
    """
    with told_errors():
        given = _settings(settings or [])
        if agent_id is not None:
            given["agent_id"] = agent_id
        wish = JoinOptions(
            url=url,
            places=places(user=user),
            token=_token(token, token_file),
            pool=pool,
            tls=trust.keys(),
            settings=given,
            service=ServiceMode.NONE if no_service or foreground else ServiceMode.SYSTEMD,
            wait_s=_length(wait, "--wait").total_seconds(),
        )
        joined = join(wish, _tell)
    standing = joined.standing
    command = run_command(joined.config)
    if as_json:
        typer.echo(json.dumps({**standing.model_dump(), "config": str(joined.config)}))
    elif wish.service is ServiceMode.SYSTEMD:
        slots = counted(standing.slots, "slot")
        _tell(f"It is connected, with {slots}; it starts again with the machine")
    elif no_service:
        _tell(
            "Nothing runs it yet. Run this; `det agent list` shows the agent once it is connected:"
        )
        typer.echo(shlex.join(command))
    if joined.hint:
        _tell(joined.hint)
    if foreground:
        os.execv(command[0], command)  # noqa: S606


def leave_command(
    grace: Annotated[
        str, typer.Option(help="Let tasks leave for this long: trials make a checkpoint.")
    ] = "10m",
    force: Annotated[
        bool, typer.Option("--force", help="Kill the tasks that still run after that.")
    ] = False,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline", help="Do not tell the master, which is gone or has forgotten it."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    user: UserOption = None,
) -> None:
    """Undo `windlass agent join`: let tasks leave, end the service, forget the credential, remove agent.yaml.

    It may be repeated after a failure. The agent's work directory goes with it.
    """
    with told_errors():
        where = places(user=user)
        if not where.config.exists():
            _tell(f"no agent has joined here: there is no {where.config}")
            return
        options = joined_options(where)
        if not yes:
            typer.confirm(
                f"Take agent {options.agent_id} out of {options.url} and remove its files in {options.work_dir}?",
                abort=True,
                err=True,
            )
        farewell = Farewell(
            places=where, grace=_length(grace, "--grace"), force=force, offline=offline
        )
        leave(farewell, _tell)


def _token(given: str | None, file: Path | None) -> str:
    """From one place. Empty: none. Raises InvalidArgument, InvalidConfig; neither shows it."""
    if given is not None and file is not None:
        raise InvalidArgument("give either --token or --token-file")
    if given is not None:
        return one_token(given, "--token")
    if file is None:
        return one_token(os.environ.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE)
    if str(file) == "-":
        return one_token(sys.stdin.readline(), "--token-file -")
    try:
        return one_token(file.read_text(encoding="ascii", errors="replace"), f"--token-file {file}")
    except OSError as error:
        raise InvalidArgument(f"--token-file {file}: {error.strerror}") from None


def _settings(words: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise InvalidArgument(f'--set: "{word}" is not KEY=VALUE')
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise InvalidArgument(f"--set {key}: the value is not valid YAML") from None
    return found


def _length(text: str, option: str) -> timedelta:
    try:
        length = parse_duration(text)
        if length < timedelta(0):
            raise ValueError(f'"{text}" is before now')
        return length
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"{option}: {error}") from None


def _tell(text: str) -> None:
    typer.echo(text, err=True)
