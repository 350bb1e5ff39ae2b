"""`windlass master join-token`: what lets machines become agents."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.formats.plurals import counted
from windlass.base.network import is_loopback
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_json
from windlass.cli.output.times import local_time
from windlass.sdk.wire import Json

app = command_group(
    "Create, list and revoke the tokens with which machines join. For administrators."
)

ANY = "any"
NEVER = "never"


@app.command()
def create(
    ctx: typer.Context,
    pool: Annotated[str, typer.Argument(help="Resource pool to join.")] = "default",
    valid: Annotated[
        str, typer.Option(help="Let agents join for this long: 90s, 5m, 7d; or never to end.")
    ] = "1h",
    uses: Annotated[
        str, typer.Option(help="Let this many agents join with it; or any for any number.")
    ] = "1",
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="Admit only the agent of this id, once, also if it has lost its credential. May be repeated.",
            show_default=False,
        ),
    ] = None,
    description: Annotated[str, typer.Option(help="Note what it is for.")] = "",
    token_only: Annotated[
        bool, typer.Option("--token-only", help="Print the token alone, for scripts.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a join token and print the command that joins a machine with it. It is shown this once."""
    client = client_for(ctx)
    with for_administrators():
        made = client.create_join_token(_wanted(pool, valid, uses, agent or [], description))
    if as_json:
        print_json(made)
    elif token_only:
        typer.echo(made["token"])
    else:
        url = url_for_agents(client.session.url, str(made.get("masterUrl") or ""))
        _tell(made["joinToken"])
        pin = f" --cert-fingerprint {found}" if (found := made.get("certFingerprint")) else ""
        typer.echo(f"windlass agent join {shlex.quote(url)} --token {made['token']}{pin}")


@app.command("list")
@with_groups
def list_tokens(ctx: typer.Context, out: TableOptions) -> None:
    """List join tokens, masked, with who joined by them. Those that are over stay for 30 days."""
    client = client_for(ctx)
    with for_administrators():
        tokens = client.join_tokens()
    out.show(TOKENS, tokens)


@app.command()
def revoke(
    ctx: typer.Context,
    token_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids, as `list` shows them.")
    ],
) -> None:
    """Let nobody join with these tokens any more. Agents that did stay: see `windlass master forget-agent`."""
    client = client_for(ctx)
    for token_id in token_ids:
        with for_administrators():
            revoked = client.revoke_join_token(token_id)
        joined = ", ".join(revoked["joined"])
        notice(
            f"Revoked join token {token_id}"
            + (f"; agents joined with it: {joined}" if joined else "")
        )


def _wanted(pool: str, valid: str, uses: str, agents: list[str], description: str) -> Json:
    wanted: Json = {"pool": pool, "description": description, "agents": agents}
    if valid == NEVER:
        wanted["untilRevoked"] = True
    else:
        wanted["validS"] = _length(valid).total_seconds()
    if uses == ANY:
        wanted["anyNumber"] = True
    elif uses.isdecimal() and int(uses) > 0:
        wanted["uses"] = int(uses)
    else:
        raise InvalidArgument(f'--uses: "{uses}" is neither a number of agents nor {ANY}')
    return wanted


def _length(valid: str) -> timedelta:
    from windlass.base.formats.durations import parse_duration

    try:
        length = parse_duration(valid)
        if length <= timedelta(0):
            raise ValueError("must be longer than nothing")
        return length
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"--valid: {error}, or {NEVER}") from None


def url_for_agents(ours: str, masters: str) -> str:
    """As we reach the master, unless that leads nowhere from another machine."""
    if not is_loopback(urlsplit(ours).hostname or ""):
        return ours
    if masters and not is_loopback(urlsplit(masters).hostname or ""):
        return masters
    notice(f"{ours} is of this machine only: on others, write the master's address in its place")
    return ours


def _tell(token: Json) -> None:
    who = ", ".join(token["agents"]) or (
        "any number of agents" if token["uses"] is None else counted(token["uses"], "agent")
    )
    until = (
        f"until {local_time(token['expiresAt'])}" if token["expiresAt"] else "until it is revoked"
    )
    notice(
        f"Join token {token['id']}: for {who} of pool {token['pool']}, {until}. Run on the machine:"
    )


def _joined(token: Json) -> str:
    return f"{len(token['joined'])} of {'any' if token['uses'] is None else token['uses']}"


TOKENS = Table(
    Column("ID", "id"),
    Column("Pool", "pool"),
    Column("State", "state"),
    Column("Joined", _joined),
    Column("Last used", "lastUsedAt", local_time),
    Column("Expires", "expiresAt", lambda at: local_time(at) or NEVER),
    Column("Created", "createdAt", local_time),
    Column("By", "createdBy"),
    Column("Description", "description"),
)
