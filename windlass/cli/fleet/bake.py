"""`det fleet bake`: an image of a pool's machines, so that the next boot installs nothing."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument, NotFound
from windlass.cli.connect import client_for
from windlass.cli.output.follow import patiently
from windlass.cli.output.text import JsonOption, print_json, print_rows, say, usd
from windlass.cli.output.times import local_time
from windlass.sdk.client import Client

POLL_S = 2.0
OVER = ("ready", "failed")


def bake(
    ctx: typer.Context,
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
    as_json: JsonOption = False,
) -> None:
    """Make an image of a machine of POOL with all that its boot installs. For administrators.

    One machine is launched, set up and ended; it works for nobody. If anything fails, nothing of it stays. An
    interrupt stops watching, not the bake.
    """
    client = client_for(ctx)
    if list_all:
        _list([each for each in client.bakes() if pool in ("", each["pool"])], as_json)
        return
    if not pool:
        raise InvalidArgument("name a pool, or see what there is with --list")
    if cancel:
        found = client.cancel_bake(_under_way(client, pool)["id"])
    else:
        found = client.begin_bake(pool, instance_type)
        if not as_json:
            say(f"Baking pool {pool} on {found['offer']} ({found['id']})")
    if wait:
        found = _followed(client, found, quiet=as_json)
    if as_json:
        print_json(found)
    else:
        _say_end(found)
    if found["state"] == "failed" and not cancel:
        raise typer.Exit(1)


def _followed(client: Client, bake: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Until it is over; each thing that it does is said once."""
    said = ""
    while bake["state"] not in OVER:
        now = f"{bake['state']}: {bake['note']}" if bake["note"] else bake["state"]
        if now != said and not quiet:
            say(now)
        said = now
        time.sleep(POLL_S)
        bake = patiently(partial(_find, client, bake["id"]))
    return bake


def _find(client: Client, bake_id: str) -> dict[str, Any]:
    for each in client.bakes():
        if each["id"] == bake_id:
            return dict(each)
    raise NotFound("bake", bake_id)


def _under_way(client: Client, pool: str) -> dict[str, Any]:
    for each in client.bakes():
        if each["pool"] == pool and each["state"] not in OVER:
            return dict(each)
    raise NotFound("bake under way of pool", pool, "; see: det fleet bake --list")


def _say_end(bake: dict[str, Any]) -> None:
    if bake["state"] == "ready":
        say(f"Image {bake['imageName']} is ready; its machine cost {usd(bake['usd'])}")
        say(f"In the provider of pool {bake['pool']} in master.yaml, write:\n")
        say(f"    {bake['setting']}\n")
        say("and restart the master")
    elif bake["state"] == "failed":
        say(f"No image of pool {bake['pool']}, and nothing of it is left: {bake['error']}")
        say("Correct that in master.yaml, and bake again")


def _list(bakes: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(bakes)
        return
    headers = ["Pool", "State", "Since", "By", "Image", "USD", "What"]
    print_rows(
        headers,
        [
            [
                each["pool"],
                each["state"],
                local_time(each["createdAt"]),
                each["by"],
                each["imageId"] or each["imageName"],
                f"{each['usd']:.2f}",
                each["error"] or each["note"],
            ]
            for each in bakes
        ],
    )
