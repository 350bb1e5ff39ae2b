"""`det fleet offers` and `retry`: what elastic pools may buy, and what was refused until when."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.fleet.machines import length
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions, decimals
from windlass.cli.output.text import notice, print_json, say
from windlass.cli.output.times import local_time
from windlass.sdk.wire import Json


@with_groups
def offers(ctx: typer.Context, out: TableOptions) -> None:
    """List what elastic pools may buy: price, time to boot, and what was refused until when."""
    answer = client_for(ctx).fleet_offers()
    out.show(OFFERS, answer["offers"])
    if not out.as_json:
        for warning in answer.get("warnings") or []:
            notice(warning)


def retry(
    ctx: typer.Context,
    offer: Annotated[str, typer.Argument(help="Its name, as `offers` shows it.")],
    as_json: JsonOption = False,
) -> None:
    """Forget why an offer was refused, and try it again when something needs it. For administrators."""
    found = client_for(ctx).retry_offer(offer)
    if as_json:
        print_json(found)
        return
    for each in found:
        reason = f": {each['reason']}" if each["reason"] else ""
        say(f"Offer {offer} of pool {each['pool']} is {each['state']}{reason}")


def _gpu(offer: Json) -> str:
    memory = offer["gpuMemoryMib"]
    return f"{offer['gpuModel']} {memory / 1024:g} GiB" if memory else str(offer["gpuModel"])


def _boot(offer: Json) -> str:
    return length(offer["bootS"]) + ("" if offer["bootIsLearned"] else " (not measured)")


def _applies_to(offer: Json) -> str:
    return "/".join(part for part in (offer["scope"] or {}).values() if part)


OFFERS = Table(
    Column("Offer", "name"),
    Column("Pool", "pool"),
    Column("Slots", "slots"),
    Column("GPU", _gpu),
    Column("USD/h", "usdPerHour", decimals(2, unknown="unknown")),
    Column("Price from", "priceOrigin"),
    Column("Boot", _boot),
    Column("State", "state"),
    Column("Next try", "nextTryAt", local_time),
    Column("Applies to", _applies_to),
    Column("Refused", "reason", below="was refused"),
    give_way=("Applies to", "Price from", "Boot", "Next try", "GPU", "Pool"),
)
