"""`det run`: trials of all experiments in one list, and what is done to several of them at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.experiment.finding import (
    FilterOption,
    condition,
    equal,
    filter_text,
    metric_of,
    order_of,
)
from windlass.cli.groups import command_group
from windlass.cli.output.columns import ENDED, STARTED, Column, Table, TableOptions
from windlass.cli.output.text import notice, state_name
from windlass.sdk.client import RunAction
from windlass.sdk.wire import Json

app = command_group()

RunIds = Annotated[list[int], typer.Argument(metavar="RUN_ID...", help="Ids of trials.")]


@app.command("list")
@with_groups
def list_runs(
    ctx: typer.Context,
    *,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="Include other users' and archived ones.")
    ] = False,
    experiment: Annotated[
        int | None, typer.Option("--experiment", min=1, help="Only the trials of this experiment.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="'NAME OP VALUE'",
            help="Only those: 'state=COMPLETED', 'hp.lr<0.1', 'validation.loss.min<0.2'. May be repeated.",
        ),
    ] = None,
    filter: FilterOption = "",
    out: TableOptions,
) -> None:
    """List runs, which are trials. --sort also takes metric:NAME and hp.NAME: the master sorts by them."""
    conditions = [condition(text) for text in where or ()]
    client = client_for(ctx)
    if experiment is not None:
        conditions.append(equal("experimentId", experiment))
    elif not everybody and not filter:
        conditions.append(equal("user", str(client.me().get("username"))))
    order = order_of(out.sort)
    limit = None if out.sort and not order else out.limit
    found = client.search_runs(
        filter_text(conditions, archived=everybody),
        order or "id=desc",
        written=filter,
        limit=limit,
    )
    table, sort = RUNS, "" if order else out.sort
    if metric := metric_of(out.sort):
        table = with_metric(RUNS, metric, "summaryMetrics")
    replace(out, sort=sort).show(table, found)


@app.command()
def kill(ctx: typer.Context, run_ids: RunIds) -> None:
    """Stop runs at once."""
    _act(ctx, run_ids, "kill", "Killed")


@app.command()
def pause(ctx: typer.Context, run_ids: RunIds) -> None:
    """Pause runs that are the only ones of their experiments."""
    _act(ctx, run_ids, "pause", "Paused")


@app.command()
def resume(ctx: typer.Context, run_ids: RunIds) -> None:
    """Resume runs that were paused."""
    _act(ctx, run_ids, "resume", "Resumed")


@app.command()
def archive(ctx: typer.Context, run_ids: RunIds) -> None:
    """Hide runs that have ended from lists."""
    _act(ctx, run_ids, "archive", "Archived")


@app.command()
def unarchive(ctx: typer.Context, run_ids: RunIds) -> None:
    """Show archived runs in lists again."""
    _act(ctx, run_ids, "unarchive", "Unarchived")


@app.command()
def delete(
    ctx: typer.Context,
    run_ids: RunIds,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Delete runs of experiments that have ended, with their checkpoints, metrics, logs and TensorBoard files."""
    if not yes:
        typer.confirm(
            f"Delete {len(run_ids)} run(s) with all checkpoints, metrics and logs for good?",
            abort=True,
        )
    _act(ctx, run_ids, "delete", "Deleting")


def _act(ctx: typer.Context, run_ids: list[int], action: RunAction, done: str) -> None:
    """Each is tried; the exit code is 1 if one failed."""
    results = client_for(ctx).act_on_runs(action, run_ids)
    for result in results:
        if problem := result.get("error"):
            notice(f"error: run {result['id']}: {problem}")
        else:
            notice(f"{done} run {result['id']}")
    if any(result.get("error") for result in results):
        raise typer.Exit(1)


def with_metric(table: Table, metric: str, summary: str) -> Table:
    """With a column of that metric, GROUP.NAME.STATISTIC; `summary`: the key of the summary, with dots."""
    group, _, rest = metric.partition(".")
    name, _, statistic = rest.rpartition(".")
    key = _SUMMARY_KEYS.get(group, group)

    def value(row: Json) -> object:
        found: object = row
        for part in (*summary.split("."), key, name, statistic):
            found = found.get(part) if isinstance(found, dict) else None
        return found

    return table.with_columns([*table.columns, Column(metric, value)])


_SUMMARY_KEYS = {"training": "avg_metrics", "validation": "validation_metrics"}
RUNS = Table(
    Column("Run", "id"),
    Column("Experiment", "experiment.id"),
    Column("Name", "experiment.name"),
    Column("State", lambda run: run.get("deletion") or state_name(run.get("state"))),
    Column("Hyperparameters", "hyperparameters"),
    Column("Metric", "searcherMetricValue"),
    STARTED,
    ENDED,
)
