"""`det webhook`: calls of other systems when experiments change, print something or say so."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.errors import Conflict, InvalidArgument, NotFound
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import command_group
from windlass.cli.interactive.launching import WorkspaceOption, workspace_id
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions, joined
from windlass.cli.output.text import notice, print_json
from windlass.cli.output.times import local_time
from windlass.cli.places import YesOption
from windlass.sdk.webhooks import Webhooks
from windlass.sdk.wire import Json

app = command_group()

WebhookName = Annotated[
    str, typer.Argument(metavar="WEBHOOK", help="Name of the webhook, or its id.")
]
Url = Annotated[str, typer.Argument(metavar="URL", help="What is called.")]


def _triggers(webhook: Json) -> str:
    return joined(
        " ".join(
            [
                str(one["triggerType"]).removeprefix("TRIGGER_TYPE_").lower(),
                *map(str, (one.get("condition") or {}).values()),
            ]
        )
        for one in webhook["triggers"]
    )


_DELIVERIES = Table(
    Column("Event", "eventId"),
    Column("Type", lambda one: str(one["eventType"]).lower()),
    Column("Experiment", "experimentId"),
    Column("Happened", "createdAt", local_time),
    Column("Attempts", "attempts"),
    Column("Last result", "lastResult"),
    Column("Next try", "nextTry", local_time),
    Column("Delivered", "deliveredAt", local_time),
)


@app.command("list")
@with_groups
def list_webhooks(ctx: typer.Context, out: TableOptions) -> None:
    """List webhooks."""
    client = client_for(ctx)
    workspaces = {one["id"]: str(one["name"]) for one in client.workspaces()}
    table = Table(
        Column("Id", "id"),
        Column("Name", "name"),
        Column("Type", lambda one: one["webhookType"].removeprefix("WEBHOOK_TYPE_").lower()),
        Column(
            "Called by",
            lambda one: "those that name it" if one["mode"].endswith("SPECIFIC") else "all",
        ),
        Column(
            "Workspace", lambda one: workspaces.get(one["workspaceId"], one["workspaceId"] or "")
        ),
        Column("Triggers", _triggers),
        Column("URL", "url"),
    )
    out.show(table, client.webhooks().listed())


@app.command()
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the webhook.")],
    url: Url,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Call when an experiment gets this state. Repeatable."),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Call when output matches, once a task. Repeatable."),
    ] = None,
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Call when a trial says core_context.alert.")
    ] = False,
    slack: Annotated[bool, typer.Option("--slack", help="Send what Slack shows.")] = False,
    specific: Annotated[
        bool,
        typer.Option("--specific", help="Only experiments whose configuration names it call it."),
    ] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a webhook: of the cluster (for administrators), or of a workspace."""
    triggers = [
        *(_trigger("EXPERIMENT_STATE_CHANGE", state=one.upper()) for one in state or ()),
        *(_trigger("TASK_LOG", regex=one) for one in log or ()),
        *([_trigger("CUSTOM")] if alerts else ()),
    ]
    if not triggers:
        raise InvalidArgument("give at least one of --state, --log and --alerts")
    client = client_for(ctx)
    made = client.webhooks().create(
        name,
        url,
        triggers,
        slack=slack,
        specific=specific or alerts,
        workspace_id=workspace_id(client, workspace),
    )
    if as_json:
        print_json(made)
    else:
        notice(f"Created webhook {made['id']}")


@app.command("set-url")
def set_url(ctx: typer.Context, webhook: WebhookName, url: Url) -> None:
    """Call another URL. Calls that wait go there, too."""
    calls = client_for(ctx).webhooks()
    calls.set_url(_id(calls, webhook), url)
    notice(f"Changed webhook {webhook}")


@app.command()
def delete(ctx: typer.Context, webhook: WebhookName, yes: YesOption = False) -> None:
    """Delete a webhook. Calls that wait are not made."""
    calls = client_for(ctx).webhooks()
    id_ = _id(calls, webhook)
    if not yes:
        typer.confirm(f"Delete webhook {webhook}, with the calls that wait?", abort=True)
    calls.delete(id_)
    notice(f"Deleted webhook {webhook}")


@app.command()
def test(ctx: typer.Context, webhook: WebhookName) -> None:
    """Call it once, now."""
    calls = client_for(ctx).webhooks()
    calls.test(_id(calls, webhook))
    notice(f"The receiver of webhook {webhook} took the call")


@app.command()
@with_groups
def deliveries(ctx: typer.Context, webhook: WebhookName, *, out: TableOptions) -> None:
    """List calls that wait, and those of the last 7 days, with what became of them."""
    calls = client_for(ctx).webhooks()
    out.show(_DELIVERIES, calls.deliveries(_id(calls, webhook)))


@app.command("signing-key")
def signing_key(ctx: typer.Context) -> None:
    """Print the key by which receivers check signatures. For administrators."""
    with for_administrators():
        typer.echo(client_for(ctx).webhooks().signing_key())


def _id(calls: Webhooks, word: str) -> int:
    """Raises NotFound, and Conflict for a name of several."""
    if word.isdecimal():
        return int(word)
    found = [int(one["id"]) for one in calls.listed() if one["name"] == word]
    if len(found) > 1:
        raise Conflict(
            f"{len(found)} webhooks have the name '{word}': give an id of {joined(found)}"
        )
    if not found:
        raise NotFound("webhook", word, "; see `det webhook list`")
    return found[0]


def _trigger(type_: str, **condition: str) -> Json:
    return {"triggerType": f"TRIGGER_TYPE_{type_}", "condition": condition}
