"""`det fleet bake`: an image of a pool's machines, so that the next boot installs nothing."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument, NotFound
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.output.columns import Column, Table, TableOptions, decimals
from windlass.cli.output.follow import changes, follow
from windlass.cli.output.text import print_json, say, usd
from windlass.cli.output.times import local_time
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

POLL_S = 2.0
OVER = ("ready", "failed")


@with_groups
def bake(
    ctx: typer.Context,
    *,
    pool: Annotated[str, typer.Argument(help="The pool whose machines the image is for.")] = "",
    instance_type: Annotated[
        str, typer.Option("--type", help="Of which instance type, where the pool buys several.")
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Follow it until it is over.")
    ] = True,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End the pool's bake, and remove what it made.")
    ] = False,
    list_all: Annotated[
        bool, typer.Option("--list", help="List what is being made, and the newest that are over.")
    ] = False,
    out: TableOptions,
) -> None:
    """Make an image of a machine of POOL with all that its boot installs. For administrators.

    One machine is launched, set up and ended; it works for nobody. If anything fails, nothing of it stays. An
    interrupt stops watching, not the bake.
    """
    client = client_for(ctx)
    if list_all:
        out.show(BAKES, [each for each in client.bakes() if pool in ("", each["pool"])])
        return
    if not pool:
        raise InvalidArgument("name a pool, or see what there is with --list")
    if cancel:
        found = client.cancel_bake(_under_way(client, pool)["id"])
    else:
        found = client.begin_bake(pool, instance_type)
        if not out.as_json:
            say(f"Baking pool {pool} on {found['offer']} ({found['id']})")
    if wait:
        found = _followed(client, found, quiet=out.as_json)
    if out.as_json:
        print_json(found)
    else:
        _say_end(found)
    if found["state"] == "failed" and not cancel:
        raise typer.Exit(1)


def _followed(client: Client, bake: Json, *, quiet: bool) -> Json:
    """Until it is over; each thing that it does is said once."""
    told = changes(lambda text: None if quiet else say(text))

    def tell(seen: Json) -> None:
        if seen["state"] not in OVER:
            told(f"{seen['state']}: {seen['note']}" if seen["note"] else seen["state"])

    return follow(
        partial(_find, client, bake["id"]),
        lambda seen: seen["state"] in OVER,
        tell,
        first_s=POLL_S,
        pause_s=POLL_S,
    )


def _find(client: Client, bake_id: str) -> Json:
    for each in client.bakes():
        if each["id"] == bake_id:
            return dict(each)
    raise NotFound("bake", bake_id)


def _under_way(client: Client, pool: str) -> Json:
    for each in client.bakes():
        if each["pool"] == pool and each["state"] not in OVER:
            return dict(each)
    raise NotFound("bake under way of pool", pool, "; see: det fleet bake --list")


def _say_end(bake: Json) -> None:
    if bake["state"] == "ready":
        say(f"Image {bake['imageName']} is ready; its machine cost {usd(bake['usd'])}")
        say(f"In the provider of pool {bake['pool']} in master.yaml, write:\n")
        say(f"    {bake['setting']}\n")
        say("and restart the master")
    elif bake["state"] == "failed":
        say(f"No image of pool {bake['pool']}, and nothing of it is left: {bake['error']}")
        say("Correct that in master.yaml, and bake again")


BAKES = Table(
    Column("Pool", "pool"),
    Column("State", "state"),
    Column("Since", "createdAt", local_time),
    Column("By", "by"),
    Column("Image", lambda bake: bake["imageId"] or bake["imageName"]),
    Column("USD", "usd", decimals(2)),
    Column("What", lambda bake: bake["error"] or bake["note"]),
)
