"""`det experiment list`, `describe`, and what else only looks at experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.completion import ExperimentId
from windlass.cli.connect import client_for
from windlass.cli.experiment.failures import error_of, print_failure
from windlass.cli.experiment.trial import FollowOption, HeadOption, TailOption, check_log_options
from windlass.cli.output.follow import print_logs
from windlass.cli.output.text import (
    ERROR,
    WAITING,
    CsvOption,
    JsonOption,
    LimitOption,
    RawOption,
    notice,
    percent,
    print_fields,
    print_json,
    print_rows,
    print_yaml,
    state_name,
    usd,
    waiting_text,
)
from windlass.cli.output.times import UtcOption, local_time

app = typer.Typer()


@app.command("list")
def list_experiments(
    ctx: typer.Context,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="Include other users' and archived ones.")
    ] = False,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """List your experiments; with --limit the newest ones."""
    client = client_for(ctx)
    user = None if everybody else str(client.me().get("username"))
    archived = None if everybody else False
    experiments = client.experiments(user=user, archived=archived, newest=limit)
    if as_json:
        print_json(experiments)
        return
    headers = [
        "ID",
        "Owner",
        "Name",
        "State",
        "Progress",
        "Started",
        "Ended",
        "Pool",
        WAITING,
        ERROR,
    ]
    print_rows(headers, [_experiment_row(e) for e in experiments], as_csv=as_csv)
    if failed := [e["id"] for e in experiments if error_of(e)]:
        notice(f"Show why experiment {failed[-1]} failed: det experiment describe {failed[-1]}")


@app.command()
def describe(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    as_json: JsonOption = False,
    utc: UtcOption = False,
) -> None:
    """Show an experiment and its trials, and why they wait or failed."""
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
    typer.echo("")
    _print_trials(trials, as_csv=False)
    if any(map(error_of, [experiment, *trials])):
        print_failure(client, experiment, trials)


def _cost_fields(cost: dict[str, Any] | None) -> list[tuple[str, str | None]]:
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
def logs(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    follow: FollowOption = False,
    head: HeadOption = None,
    tail: TailOption = None,
    as_json: JsonOption = False,
    raw: RawOption = False,
) -> None:
    """Print the log of the first trial."""
    check_log_options(follow, head, tail)
    client = client_for(ctx)
    trials = client.trials(experiment_id, limit=1)
    if not trials:
        raise InvalidArgument(f"Experiment {experiment_id} has no trials yet")
    trial_id = int(trials[0]["id"])
    print_logs(client, trial_id, follow=follow, head=head, tail=tail, as_json=as_json, raw=raw)


@app.command("list-trials")
def list_trials(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """List the trials of an experiment. Short: lt."""
    trials = client_for(ctx).trials(experiment_id, limit=limit)
    if as_json:
        print_json(trials)
    else:
        _print_trials(trials, as_csv)


@app.command("list-checkpoints")
def list_checkpoints(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    best: Annotated[
        int | None, typer.Option("--best", min=1, help="Show only the best N by the metric.")
    ] = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """List the checkpoints of an experiment. Short: lc."""
    checkpoints = client_for(ctx).checkpoints(experiment_id, best=best)[:limit]
    if as_json:
        print_json(checkpoints)
        return
    headers = ["Trial", "Steps", "State", "Metric", "UUID", "Size", "Reported"]
    print_rows(headers, [_checkpoint_row(c) for c in checkpoints], as_csv=as_csv)


def _print_trials(trials: Sequence[dict[str, Any]], as_csv: bool) -> None:
    headers = [
        "Trial",
        "State",
        "Hyperparameters",
        "Metric",
        "Steps",
        "Started",
        "Ended",
        WAITING,
        ERROR,
    ]
    rows = [
        [
            trial.get("id"),
            state_name(trial.get("state")),
            trial.get("hparams"),
            trial.get("searcherMetricValue"),
            trial.get("totalBatchesProcessed"),
            local_time(trial.get("startTime")),
            local_time(trial.get("endTime")),
            waiting_text(trial),
            error_of(trial),
        ]
        for trial in trials
    ]
    print_rows(headers, rows, as_csv=as_csv)


def _experiment_row(experiment: dict[str, Any]) -> list[Any]:
    return [
        experiment.get("id"),
        experiment.get("username"),
        experiment.get("name"),
        state_name(experiment.get("state")),
        percent(experiment.get("progress")),
        local_time(experiment.get("startTime")),
        local_time(experiment.get("endTime")),
        experiment.get("resourcePool"),
        waiting_text(experiment),
        error_of(experiment) or experiment.get("error"),
    ]


def _checkpoint_row(checkpoint: dict[str, Any]) -> list[Any]:
    training = checkpoint.get("training") or {}
    return [
        training.get("trialId"),
        (checkpoint.get("metadata") or {}).get("steps_completed"),
        state_name(checkpoint.get("state")),
        training.get("searcherMetric"),
        checkpoint.get("uuid"),
        sum(int(size) for size in (checkpoint.get("resources") or {}).values()),
        local_time(checkpoint.get("reportTime")),
    ]
