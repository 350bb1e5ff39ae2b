"""`det token`: what programs log in with."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument, NotFound, Unauthenticated
from windlass.base.formats.plurals import counted
from windlass.base.option_groups import with_groups
from windlass.cli.connect import ask_password, client_for, session_for
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_json, print_yaml
from windlass.cli.output.times import local_time
from windlass.cli.places import YesOption, confirm_at_terminal
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

app = command_group()

HOURS = 24
LONGEST = -1
YamlOption = Annotated[bool, typer.Option("--yaml", help="Print YAML.")]
DescriptionOption = Annotated[
    str | None, typer.Option("-d", "--description", help="Note what it is for.")
]
TokenId = Annotated[int, typer.Argument(metavar="ID", help="Id, as `list` shows it.")]
TokenIds = Annotated[list[int], typer.Argument(metavar="ID...", help="Ids, as `list` shows them.")]


@app.command()
def create(
    ctx: typer.Context,
    username: Annotated[
        str | None,
        typer.Argument(
            help="Whom it acts for. Default: yourself. Others are for administrators.",
            show_default=False,
        ),
    ] = None,
    *,
    expiration_days: Annotated[
        int | None,
        typer.Option(
            "-e",
            "--expiration-days",
            help="Days until it expires; -1: as long as this cluster allows. Default: what master.yaml says.",
            show_default=False,
        ),
    ] = None,
    description: DescriptionOption = None,
    token_only: Annotated[
        bool, typer.Option("--token-only", help="Print the token alone, for scripts.")
    ] = False,
    as_json: JsonOption = False,
    as_yaml: YamlOption = False,
) -> None:
    """Make an access token. It is shown this once."""
    client = client_for(ctx)
    user = client.user(username) if username else client.me()
    made = client.access_tokens().create(
        int(user["id"]), lifespan=_lifespan(expiration_days), description=description
    )
    if as_json or as_yaml:
        _print(made, as_yaml)
    elif token_only:
        typer.echo(made["token"])
    else:
        notice(f"Access token {made['tokenId']} of {user['username']}, shown this once:")
        typer.echo(made["token"])


@app.command("list")
@with_groups
def list_tokens(
    ctx: typer.Context,
    username: Annotated[
        str | None, typer.Argument(help="Only those of this user.", show_default=False)
    ] = None,
    *,
    show_inactive: Annotated[
        bool, typer.Option("--show-inactive", help="Show revoked and expired ones, too.")
    ] = False,
    as_yaml: YamlOption = False,
    out: TableOptions,
) -> None:
    """List access tokens: your own, for administrators those of all."""
    found = client_for(ctx).access_tokens().listed(username, ended=show_inactive)
    if as_yaml:
        print_yaml(found)
    else:
        out.show(TOKENS, found)


@app.command()
def describe(
    ctx: typer.Context,
    token_ids: TokenIds,
    as_json: JsonOption = False,
    as_yaml: YamlOption = False,
) -> None:
    """Show access tokens."""
    found = client_for(ctx).access_tokens().listed(token_ids=token_ids)
    missing = sorted(set(token_ids) - {int(one["id"]) for one in found})
    if missing:
        raise NotFound("access token", missing[0])
    if as_json or as_yaml:
        _print(found, as_yaml)
    else:
        TOKENS.print(found)


@app.command()
def edit(ctx: typer.Context, token_id: TokenId, description: DescriptionOption = None) -> None:
    """Change the description of an access token."""
    if description is None:
        raise InvalidArgument("Nothing to change: give --description")
    client_for(ctx).access_tokens().describe(token_id, description)
    notice(f"Changed access token {token_id}")


@app.command()
def revoke(ctx: typer.Context, token_ids: TokenIds, yes: YesOption = False) -> None:
    """End access tokens, for good. What uses one is refused from now on."""
    confirm_at_terminal(f"Revoke {counted(len(token_ids), 'access token')} for good?", yes)
    tokens = client_for(ctx).access_tokens()
    for token_id in token_ids:
        tokens.revoke(token_id)
        notice(f"Revoked access token {token_id}")


@app.command()
def login(
    ctx: typer.Context,
    token: Annotated[
        str | None,
        typer.Argument(
            help="The token, which the shell's history then shows. Default: it is asked for, or read from standard "
            "input.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Log in with an access token and store it."""
    from windlass.sdk.credentials import TokenCache

    given = (token if token is not None else _asked()).strip()
    if not given:
        raise InvalidArgument("No token given")
    with session_for(ctx, given) as session:
        try:
            name = str(Client(session).me()["username"])
        except Unauthenticated:
            raise Unauthenticated(
                f"{session.url} does not accept this token: it may be revoked, or have expired"
            ) from None
        TokenCache().remember(session.url, name, given)
        notice(f"Logged in as {name} at {session.url}")


def _asked() -> str:
    return ask_password("Access token") if sys.stdin.isatty() else sys.stdin.readline()


def _lifespan(days: int | None) -> str | None:
    if days is None:
        return None
    return str(LONGEST) if days == LONGEST else f"{HOURS * days}h"


def _print(found: Any, as_yaml: bool) -> None:
    if as_yaml:
        print_yaml(found)
    else:
        print_json(found)


def _state(token: Json) -> str:
    from datetime import UTC, datetime

    if token.get("revoked"):
        return "revoked"
    return "expired" if datetime.fromisoformat(token["expiry"]) <= datetime.now(UTC) else "valid"


TOKENS = Table(
    Column("ID", "id"),
    Column("User", "username"),
    Column("State", _state),
    Column("Expires", "expiry", local_time),
    Column("Created", "createdAt", local_time),
    Column("Description", "description"),
)
