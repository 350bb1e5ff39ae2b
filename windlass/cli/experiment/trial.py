"""`det trial`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.base.checkpoint_states import DOWNLOADABLE
from windlass.base.errors import InvalidArgument, InvalidState
from windlass.base.option_groups import with_groups
from windlass.cli.completion import TrialId
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.experiment import history
from windlass.cli.experiment.copies import CopyOptions, OutputDirOption, without_metric
from windlass.cli.experiment.failures import error_of, print_trial_failure
from windlass.cli.experiment.log_retention import DaysOption, ForeverOption, set_retention
from windlass.cli.experiment.support_bundle import write_bundle
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, Table, TableOptions
from windlass.cli.output.follow import LogView
from windlass.cli.output.text import notice, print_fields, print_json, state_name, waiting_text
from windlass.cli.output.times import local_time
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

app = command_group()
app.add_typer(history.of_trials)


@app.command()
@with_groups
def describe(
    ctx: typer.Context,
    trial_id: TrialId,
    *,
    metrics: Annotated[bool, typer.Option("--metrics", help="Show all metrics.")] = False,
    out: TableOptions,
) -> None:
    """Show a trial: state, hyperparameters, metrics, checkpoints, and why it waits or failed."""
    client = client_for(ctx)
    trial = client.trial(trial_id)
    workloads = client.workloads(trial_id, batch_metrics=metrics)
    if out.as_json:
        print_json({"trial": trial, "workloads": workloads})
        return
    if not out.as_csv:
        _print_trial(trial)
    out.show(WORKLOADS, [row for each in workloads for row in _described(each, metrics)])
    if error_of(trial):
        print_trial_failure(trial)


@app.command()
@with_groups
def logs(ctx: typer.Context, trial_id: TrialId, out: LogView) -> None:
    """Print the log of a trial."""
    out.show(client_for(ctx).logs, trial_id)


@app.command("support-bundle")
def support_bundle(
    ctx: typer.Context,
    trial_id: TrialId,
    output_dir: Annotated[
        Path, typer.Option("-o", "--output-dir", help="Where to put the archive.")
    ] = Path(),
) -> None:
    """Pack what is known of a trial into an archive, for whoever is to help. For administrators."""
    with for_administrators():
        typer.echo(write_bundle(client_for(ctx), trial_id, output_dir))


settings = command_group("Change settings of a trial.")
app.add_typer(settings, name="set")


@settings.command("log-retention")
def log_retention(
    ctx: typer.Context, trial_id: TrialId, days: DaysOption = None, forever: ForeverOption = False
) -> None:
    """Set how long the logs of a trial are kept."""
    set_retention(ctx, "trial", trial_id, days, forever)


@app.command()
def kill(ctx: typer.Context, trial_id: TrialId) -> None:
    """Stop a trial at once; the experiment continues with the others."""
    client_for(ctx).kill_trial(trial_id)
    notice(f"Killed trial {trial_id}")


@app.command()
@with_groups
def download(
    ctx: typer.Context,
    trial_id: TrialId,
    *,
    best: Annotated[bool, typer.Option("--best", help="The best one by the metric.")] = False,
    latest: Annotated[bool, typer.Option("--latest", help="The newest one.")] = False,
    uuid: Annotated[str | None, typer.Option("--uuid", help="This one.")] = None,
    output_dir: OutputDirOption = None,
    copy: CopyOptions,
) -> None:
    """Copy a checkpoint of a trial to this machine."""
    if sum(map(bool, (best, latest, uuid))) != 1:
        raise InvalidArgument("Use one of --best, --latest and --uuid")
    client = client_for(ctx)
    checkpoint = client.checkpoint(uuid) if uuid else _chosen(client, trial_id, best=best)
    target = output_dir or Path("checkpoints") / str(checkpoint["uuid"])
    copy.fetch(client, checkpoint, target)
    copy.tell(checkpoint, target)


def _chosen(client: Client, trial_id: int, *, best: bool) -> Json:
    found = [c for c in client.trial_checkpoints(trial_id) if _is_stored(c)]
    if not found:
        raise InvalidState(f"Trial {trial_id} has no checkpoint to download")
    known = [c for c in found if _metric(c) is not None]
    if best and not known:
        raise InvalidState(
            f"Which checkpoint of trial {trial_id} is the best is not known: {found[-1]['uuid']}: "
            f"{without_metric(found[-1]) or 'its metric is not a number'}. Use --latest or --uuid"
        )
    found = known if best else found
    if not best:
        return max(
            found, key=lambda c: (c["metadata"].get("steps_completed") or 0, c["reportTime"])
        )
    config = found[0]["training"]["experimentConfig"]["searcher"]
    choose = min if config.get("smaller_is_better", True) else max
    return choose(found, key=lambda c: float(_metric(c) or 0.0))


def _is_stored(checkpoint: Json) -> bool:
    return checkpoint["state"] in DOWNLOADABLE


def _metric(checkpoint: Json) -> float | None:
    value = (checkpoint.get("training") or {}).get("searcherMetric")
    return None if value in (None, "NaN") else float(value)


def _print_trial(trial: Json) -> None:
    print_fields(
        [
            ("trial", trial.get("id")),
            ("experiment", trial.get("experimentId")),
            ("task", trial.get("taskId")),
            ("state", state_name(trial.get("state"))),
            ("waiting for", waiting_text(trial)),
            ("error", trial.get("error")),
            ("deletion", " ".join(filter(None, map(trial.get, ("deletion", "deletionError"))))),
            ("started", local_time(trial.get("startTime"))),
            ("ended", local_time(trial.get("endTime"))),
            ("steps", trial.get("totalBatchesProcessed")),
            ("restarts", trial.get("restarts")),
            ("searcher metric", trial.get("searcherMetricValue")),
            ("hyperparameters", trial.get("hparams")),
        ]
    )
    typer.echo("")


def _described(workload: Json, all_metrics: bool) -> list[Json]:
    """The one kind of report that it is, and what was reported."""
    for kind in ("training", "validation", "checkpoint"):
        if not (content := workload.get(kind)):
            continue
        if kind == "checkpoint":
            detail: object = f"{content.get('uuid')} {state_name(content.get('state'))}"
        else:
            metrics = content.get("metrics") or {}
            detail = metrics if all_metrics else metrics.get("avgMetrics")
        return [{**content, "kind": kind, "detail": detail}]
    return [{}]


WORKLOADS = Table(
    Column("Steps", "totalBatches"),
    Column("Reported", "endTime", local_time),
    Column("Kind", "kind"),
    Column("Checkpoint or metrics", "detail"),
)
