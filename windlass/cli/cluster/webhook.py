"""`det webhook`: calls of other systems when experiments change, print something or say so."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import command_group
from windlass.cli.interactive.launching import WorkspaceOption, workspace_id
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions, joined
from windlass.cli.output.text import notice, print_json
from windlass.cli.output.times import local_time
from windlass.cli.places import YesOption
from windlass.sdk.wire import Json

app = command_group()

WebhookId = Annotated[int, typer.Argument(metavar="ID", help="Id of the webhook.")]
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
def set_url(ctx: typer.Context, webhook: WebhookId, url: Url) -> None:
    """Call another URL. Calls that wait go there, too."""
    client_for(ctx).webhooks().set_url(webhook, url)
    notice(f"Changed webhook {webhook}")


@app.command()
def delete(ctx: typer.Context, webhook: WebhookId, yes: YesOption = False) -> None:
    """Delete a webhook. Calls that wait are not made."""
    if not yes:
        typer.confirm(f"Delete webhook {webhook}, with the calls that wait?", abort=True)
    client_for(ctx).webhooks().delete(webhook)
    notice(f"Deleted webhook {webhook}")


@app.command()
def test(ctx: typer.Context, webhook: WebhookId) -> None:
    """Call it once, now."""
    client_for(ctx).webhooks().test(webhook)
    notice(f"The receiver of webhook {webhook} took the call")


@app.command()
@with_groups
def deliveries(ctx: typer.Context, webhook: WebhookId, *, out: TableOptions) -> None:
    """List calls that wait, and those of the last 7 days, with what became of them."""
    out.show(_DELIVERIES, client_for(ctx).webhooks().deliveries(webhook))


@app.command("signing-key")
def signing_key(ctx: typer.Context) -> None:
    """Print the key by which receivers check signatures. For administrators."""
    with for_administrators():
        typer.echo(client_for(ctx).webhooks().signing_key())


def _trigger(type_: str, **condition: str) -> Json:
    return {"triggerType": f"TRIGGER_TYPE_{type_}", "condition": condition}
