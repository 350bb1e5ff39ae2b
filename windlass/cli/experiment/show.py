"""`det experiment list`, `describe`, and what else only looks at experiments."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.completion import ExperimentId
from windlass.cli.connect import client_for
from windlass.cli.experiment.copies import size_of
from windlass.cli.experiment.failures import error_of, print_failure
from windlass.cli.experiment.finding import FilterOption, equal, filter_text, metric_of, order_of
from windlass.cli.experiment.run import with_metric
from windlass.cli.experiment.search import print_rungs, print_trends
from windlass.cli.output.columns import (
    ENDED,
    PROGRESS,
    STARTED,
    STATE,
    WAITING,
    Column,
    JsonOption,
    Table,
    TableOptions,
)
from windlass.cli.output.follow import LogView
from windlass.cli.output.text import (
    notice,
    percent,
    print_fields,
    print_json,
    print_yaml,
    state_name,
    usd,
    waiting_text,
)
from windlass.cli.output.times import UtcOption, local_time
from windlass.sdk.wire import Json

app = typer.Typer()


@app.command("list")
@with_groups
def list_experiments(
    ctx: typer.Context,
    *,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="Include other users' and archived ones.")
    ] = False,
    filter: FilterOption = "",
    out: TableOptions,
) -> None:
    """List your experiments; with --limit the newest ones. --sort also takes metric:NAME, of their best trials."""
    client = client_for(ctx)
    user = None if everybody or filter else str(client.me().get("username"))
    metric = metric_of(out.sort)
    if metric or filter:
        conditions = [] if user is None else [equal("user", user, location="EXPERIMENT")]
        wanted = filter_text(conditions, archived=everybody)
        limit = out.limit if metric or not out.sort else None
        experiments = client.search_experiments(
            wanted, order_of(out.sort) or "id=desc", written=filter, limit=limit
        )
        if metric:
            table = with_metric(EXPERIMENTS, metric, "bestTrial.summaryMetrics")
            replace(out, sort="").show(table, experiments)
        else:
            experiments.reverse()
            out.show(EXPERIMENTS, experiments)
    else:
        archived = None if everybody else False
        experiments = client.experiments(
            user=user,
            archived=archived,
            newest=out.limit,
            configs=out.as_json and not out.columns,
        )
        out.show(EXPERIMENTS, experiments)
    if out.as_json:
        return
    if failed := [e["id"] for e in experiments if error_of(e)]:
        notice(f"Show why experiment {failed[-1]} failed: det experiment describe {failed[-1]}")


@app.command()
def describe(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    as_json: JsonOption = False,
    utc: UtcOption = False,
) -> None:
    """Show an experiment, how its best trials went, the rungs of its search, and why trials wait or failed."""
    client = client_for(ctx)
    answer = client.experiment(experiment_id)
    trials = client.trials(experiment_id)
    cost = client.experiment_cost(experiment_id)
    if as_json:
        print_json(answer | {"trials": trials, "cost": cost})
        return
    experiment = answer["experiment"]
    job = answer.get("jobSummary") or {}
    print_fields(
        [
            ("experiment", experiment.get("id")),
            ("name", experiment.get("name")),
            ("owner", experiment.get("username")),
            ("description", experiment.get("description")),
            ("labels", ", ".join(experiment.get("labels") or [])),
            ("state", state_name(experiment.get("state"))),
            ("error", error_of(experiment) or experiment.get("error")),
            ("archived", experiment.get("archived") or None),
            ("waiting for", waiting_text(experiment)),
            ("jobs ahead", job.get("jobsAhead") if (job.get("jobsAhead") or -1) >= 0 else None),
            ("progress", percent(experiment.get("progress"))),
            ("pool", experiment.get("resourcePool")),
            ("searcher", experiment.get("searcherType")),
            ("best trial", experiment.get("bestTrialId")),
            ("best metric", experiment.get("bestTrialSearcherMetric")),
            ("started", local_time(experiment.get("startTime"))),
            ("ended", local_time(experiment.get("endTime"))),
            *_cost_fields(cost),
        ]
    )
    print_trends(client, answer.get("config") or {}, trials)
    print_rungs(client, experiment)
    typer.echo("")
    TRIALS.print(trials)
    if any(map(error_of, [experiment, *trials])):
        print_failure(client, experiment, trials)


def _cost_fields(cost: Json | None) -> list[tuple[str, str | None]]:
    """Nothing where nothing is paid for: on agents that are always there."""
    if cost is None or not (cost["usd"] or cost["usdPerHour"]):
        return []
    forecast = cost["forecastUsd"]
    told = "not known" if forecast is None else usd(forecast)
    return [
        ("cost so far", usd(cost["usd"]) if cost["usd"] else None),
        ("cost per hour now", usd(cost["usdPerHour"]) if cost["usdPerHour"] else None),
        ("cost forecast", f"{told} ({cost['basis']})"),
    ]


@app.command()
def config(ctx: typer.Context, experiment_id: ExperimentId, as_json: JsonOption = False) -> None:
    """Print the whole configuration of an experiment, with every default (YAML)."""
    document = client_for(ctx).experiment(experiment_id)["config"]
    if as_json:
        print_json(document)
    else:
        print_yaml(document)


@app.command()
@with_groups
def logs(ctx: typer.Context, experiment_id: ExperimentId, out: LogView) -> None:
    """Print the log of the first trial."""
    client = client_for(ctx)
    trials = client.trials(experiment_id, limit=1)
    if not trials:
        raise InvalidArgument(f"Experiment {experiment_id} has no trials yet")
    out.show(client.logs, int(trials[0]["id"]))


@app.command("list-trials")
@with_groups
def list_trials(ctx: typer.Context, experiment_id: ExperimentId, out: TableOptions) -> None:
    """List the trials of an experiment. Short: lt."""
    out.show(TRIALS, client_for(ctx).trials(experiment_id, limit=out.limit))


@app.command("list-checkpoints")
@with_groups
def list_checkpoints(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    *,
    best: Annotated[
        int | None, typer.Option("--best", min=1, help="Show only the best N by the metric.")
    ] = None,
    out: TableOptions,
) -> None:
    """List the checkpoints of an experiment. Short: lc."""
    out.show(CHECKPOINTS, client_for(ctx).checkpoints(experiment_id, best=best))


EXPERIMENTS = Table(
    Column("ID", "id"),
    Column("Owner", "username"),
    Column("Name", "name"),
    STATE,
    PROGRESS,
    STARTED,
    ENDED,
    Column("Pool", "resourcePool"),
    WAITING,
    Column("Error", lambda e: error_of(e) or e.get("error"), below="failed"),
)
TRIALS = Table(
    Column("Trial", "id"),
    STATE,
    Column("Hyperparameters", "hparams"),
    Column("Metric", "searcherMetricValue"),
    Column("Steps", "totalBatchesProcessed"),
    STARTED,
    ENDED,
    WAITING,
    Column("Error", error_of, below="failed"),
)
CHECKPOINTS = Table(
    Column("Trial", "training.trialId"),
    Column("Steps", "metadata.steps_completed"),
    STATE,
    Column("Metric", "training.searcherMetric"),
    Column("UUID", "uuid"),
    Column("Size", size_of),
    Column("Reported", "reportTime", local_time),
)
