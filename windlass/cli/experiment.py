"""`det experiment`: submit, watch, steer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli import experiment_set
from windlass.cli.config_file import read_config
from windlass.cli.connect import client_for
from windlass.cli.follow import await_first_trial, print_logs, wait_for_end
from windlass.cli.groups import AliasedGroup
from windlass.cli.output import (
    WAITING,
    CsvOption,
    JsonOption,
    local_time,
    notice,
    percent,
    print_fields,
    print_json,
    print_rows,
    state_name,
    waiting_text,
)
from windlass.cli.trial import FollowOption, HeadOption, TailOption, check_log_options
from windlass.sdk.client import Client, ExperimentAction

app = typer.Typer(
    cls=AliasedGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Submit, watch and steer experiments.",
)
app.add_typer(experiment_set.app, name="set")

ExperimentId = Annotated[int, typer.Argument(help="Experiment id.")]

_WARNINGS = {
    "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED": (
        "the experiment asks for more slots than the cluster has right now: it waits for capacity"
    )
}


@app.command()
def create(
    ctx: typer.Context,
    config_file: Annotated[Path, typer.Argument(help="Experiment configuration (YAML).")],
    model_dir: Annotated[
        Path | None, typer.Argument(help="Directory of the model code; may be left out.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("-i", "--include", help="Further files or directories.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Override: searcher.metric=loss")
    ] = None,
    template: Annotated[str | None, typer.Option(help="Name of a template.")] = None,
    project_id: Annotated[
        int | None, typer.Option("--project_id", "--project-id", help="Put it in this project.")
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Do not start it yet.")] = False,
    follow: Annotated[
        bool, typer.Option("-f", "--follow-first-trial", help="Show the first trial's logs.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Submit an experiment."""
    from windlass.sdk.context_dir import Packed, pack_directory

    if follow and paused:
        raise InvalidArgument("--follow-first-trial waits for ever on a --paused experiment")
    text = read_config(config_file, config or [])
    packed = Packed()
    if model_dir is not None:
        packed = pack_directory(model_dir, include or [])
    elif include:
        raise InvalidArgument("--include needs a MODEL_DIR beside it")
    for line in packed.notices:
        notice(line)
    client = client_for(ctx)
    answer = client.create_experiment(
        text, packed.files, activate=not paused, project_id=project_id, template=template
    )
    experiment_id = int(answer["experiment"]["id"])
    for warning in answer.get("warnings") or []:
        notice(f"warning: {_WARNINGS.get(warning, warning)}")
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"Created experiment {experiment_id}")
    if follow:
        _follow_first_trial(client, experiment_id)


@app.command("list")
def list_experiments(
    ctx: typer.Context,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="Everybody's, archived ones too.")
    ] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Your experiments."""
    client = client_for(ctx)
    user = None if everybody else str(client.me().get("username"))
    experiments = client.experiments(user=user, archived=None if everybody else False)
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
    ]
    print_rows(headers, [_experiment_row(e) for e in experiments], as_csv=as_csv)


@app.command()
def describe(ctx: typer.Context, experiment_id: ExperimentId, as_json: JsonOption = False) -> None:
    """One experiment and its trials."""
    client = client_for(ctx)
    answer = client.experiment(experiment_id)
    trials = client.trials(experiment_id)
    if as_json:
        print_json(answer | {"trials": trials})
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
            ("waiting for", waiting_text(experiment)),
            ("jobs ahead", job.get("jobsAhead") if (job.get("jobsAhead") or -1) >= 0 else None),
            ("progress", percent(experiment.get("progress"))),
            ("pool", experiment.get("resourcePool")),
            ("searcher", experiment.get("searcherType")),
            ("best trial", experiment.get("bestTrialId")),
            ("best metric", experiment.get("bestTrialSearcherMetric")),
            ("started", local_time(experiment.get("startTime"))),
            ("ended", local_time(experiment.get("endTime"))),
        ]
    )
    typer.echo("")
    _print_trials(trials, as_csv=False)


@app.command()
def wait(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    polling_interval: Annotated[
        float, typer.Option("--polling-interval", min=0.1, help="Seconds between looks.")
    ] = 1.0,
) -> None:
    """Wait for the end. The exit code is 0 only if the experiment completed."""
    state = wait_for_end(client_for(ctx), experiment_id, polling_interval)
    typer.echo(f"Experiment {experiment_id}: {state_name(state)}")
    if state != "STATE_COMPLETED":
        raise typer.Exit(1)


@app.command()
def logs(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    follow: FollowOption = False,
    head: HeadOption = None,
    tail: TailOption = None,
    as_json: JsonOption = False,
) -> None:
    """The output of the first trial."""
    check_log_options(follow, head, tail)
    client = client_for(ctx)
    trials = client.trials(experiment_id)
    if not trials:
        raise InvalidArgument(f"experiment {experiment_id} has no trials yet")
    trial_id = int(trials[0]["id"])
    print_logs(client, trial_id, follow=follow, head=head, tail=tail, as_json=as_json)


@app.command("list-trials")
def list_trials(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """The trials of an experiment. Short: lt."""
    trials = client_for(ctx).trials(experiment_id)
    if as_json:
        print_json(trials)
    else:
        _print_trials(trials, as_csv)


@app.command("list-checkpoints")
def list_checkpoints(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    best: Annotated[int | None, typer.Option("--best", min=1, help="Only the best N.")] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """The checkpoints of an experiment. Short: lc."""
    checkpoints = client_for(ctx).checkpoints(experiment_id, best=best)
    if as_json:
        print_json(checkpoints)
        return
    headers = ["Trial", "Steps", "State", "Metric", "UUID", "Size", "Reported"]
    print_rows(headers, [_checkpoint_row(c) for c in checkpoints], as_csv=as_csv)


@app.command()
def pause(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Save checkpoints and give the slots back; `activate` goes on."""
    _act(ctx, experiment_id, "pause", "paused")


@app.command()
def activate(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Start or go on."""
    _act(ctx, experiment_id, "activate", "activated")


@app.command()
def cancel(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """End it, letting trials save a checkpoint."""
    _act(ctx, experiment_id, "cancel", "canceling")


@app.command()
def kill(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """End it at once."""
    _act(ctx, experiment_id, "kill", "killed")


def _act(ctx: typer.Context, experiment_id: int, action: ExperimentAction, done: str) -> None:
    client_for(ctx).act(experiment_id, action)
    notice(f"{done} experiment {experiment_id}")


def _follow_first_trial(client: Client, experiment_id: int) -> None:
    trial_id = await_first_trial(client, experiment_id)
    if trial_id is None:
        raise InvalidArgument(f"experiment {experiment_id} ended before it had a trial")
    notice(f"following trial {trial_id}")
    print_logs(client, trial_id, follow=True)


def _print_trials(trials: list[dict[str, Any]], as_csv: bool) -> None:
    headers = [
        "Trial",
        "State",
        "Hyperparameters",
        "Metric",
        "Steps",
        "Started",
        "Ended",
        WAITING,
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
