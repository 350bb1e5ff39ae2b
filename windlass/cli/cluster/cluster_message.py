"""`det master cluster-message`: what everybody is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import command_group
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.text import notice, print_fields, print_json
from windlass.cli.output.times import local_time
from windlass.sdk.operation import Operation

app = command_group("Show, set and clear the message to everybody.")


@app.command("get")
def get_message(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show the message, also one whose time has not come."""
    message = Operation(client_for(ctx).session).message()
    if as_json:
        print_json({"clusterMessage": message})
    elif message is None:
        notice("There is no message")
    else:
        print_fields(
            [
                ("message", message["message"]),
                ("from", local_time(message["startTime"])),
                ("until", local_time(message["endTime"])),
            ]
        )


@app.command("set")
def set_message(
    ctx: typer.Context,
    message: Annotated[str, typer.Option("-m", "--message", help="1 to 250 characters.")],
    start: Annotated[
        str | None, typer.Option("-s", "--start", help="When it begins to show: now, or RFC 3339.")
    ] = None,
    end: Annotated[str | None, typer.Option("-e", "--end", help="When it ends: RFC 3339.")] = None,
    duration: Annotated[
        str | None, typer.Option("-d", "--duration", help="Or for how long: 90m, 24h, 5d, 2w.")
    ] = None,
) -> None:
    """Show a message to everybody, in place of the one that is there. For administrators."""
    begins = start or datetime.now(UTC).isoformat()
    with for_administrators():
        Operation(client_for(ctx).session).set_message(
            message, start=begins, end=end, duration=duration
        )
    notice("Set the cluster message")


@app.command("clear")
def clear_message(ctx: typer.Context) -> None:
    """Remove the message. For administrators."""
    with for_administrators():
        Operation(client_for(ctx).session).clear_message()
    notice("Cleared the cluster message")
