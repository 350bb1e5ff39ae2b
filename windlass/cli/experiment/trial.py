"""`det trial`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument, InvalidState
from windlass.cli.completion import TrialId
from windlass.cli.connect import client_for
from windlass.cli.experiment.copies import (
    ModeOption,
    QuietOption,
    TrustHostOption,
    fetch,
    show,
    without_metric,
)
from windlass.cli.experiment.failures import error_of, print_trial_failure
from windlass.cli.groups import AliasedGroup
from windlass.cli.output.follow import print_logs
from windlass.cli.output.text import (
    CsvOption,
    JsonOption,
    RawOption,
    notice,
    print_fields,
    print_json,
    print_rows,
    state_name,
    waiting_text,
)
from windlass.cli.output.times import UtcOption, local_time
from windlass.sdk.client import Client
from windlass.sdk.downloads import DOWNLOADABLE, Mode

app = typer.Typer(
    cls=AliasedGroup, no_args_is_help=True, add_completion=False, help="Show trials and their logs."
)

FollowOption = Annotated[
    bool, typer.Option("-f", "--follow", help="Print new lines until the trial ends.")
]
HeadOption = Annotated[
    int | None, typer.Option("--head", min=1, help="Print only the first N lines.")
]
TailOption = Annotated[
    int | None, typer.Option("--tail", min=1, help="Print only the last N lines.")
]


@app.command()
def describe(
    ctx: typer.Context,
    trial_id: TrialId,
    metrics: Annotated[bool, typer.Option("--metrics", help="Show all metrics.")] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """Show a trial: state, hyperparameters, metrics, checkpoints, and why it waits or failed."""
    client = client_for(ctx)
    trial = client.trial(trial_id)
    workloads = client.workloads(trial_id, batch_metrics=metrics)
    if as_json:
        print_json({"trial": trial, "workloads": workloads})
        return
    if not as_csv:
        _print_trial(trial)
    headers = ["Steps", "Reported", "Kind", "Checkpoint or metrics"]
    print_rows(headers, [_row(w, metrics) for w in workloads], as_csv=as_csv)
    if error_of(trial):
        print_trial_failure(trial)


@app.command()
def logs(
    ctx: typer.Context,
    trial_id: TrialId,
    follow: FollowOption = False,
    head: HeadOption = None,
    tail: TailOption = None,
    as_json: JsonOption = False,
    raw: RawOption = False,
) -> None:
    """Print the log of a trial."""
    check_log_options(follow, head, tail)
    print_logs(
        client_for(ctx), trial_id, follow=follow, head=head, tail=tail, as_json=as_json, raw=raw
    )


@app.command()
def kill(ctx: typer.Context, trial_id: TrialId) -> None:
    """Stop a trial at once; the experiment continues with the others."""
    client_for(ctx).kill_trial(trial_id)
    notice(f"Killed trial {trial_id}")


@app.command()
def download(
    ctx: typer.Context,
    trial_id: TrialId,
    best: Annotated[bool, typer.Option("--best", help="The best one by the metric.")] = False,
    latest: Annotated[bool, typer.Option("--latest", help="The newest one.")] = False,
    uuid: Annotated[str | None, typer.Option("--uuid", help="This one.")] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option("-o", "--output-dir", help="Write into this directory: checkpoints/UUID."),
    ] = None,
    quiet: QuietOption = False,
    mode: ModeOption = Mode.AUTO,
    trust_host: TrustHostOption = None,
    utc: UtcOption = False,
) -> None:
    """Copy a checkpoint of a trial to this machine."""
    if sum(map(bool, (best, latest, uuid))) != 1:
        raise InvalidArgument("Use one of --best, --latest and --uuid")
    client = client_for(ctx)
    checkpoint = client.checkpoint(uuid) if uuid else _chosen(client, trial_id, best=best)
    target = output_dir or Path("checkpoints") / str(checkpoint["uuid"])
    fetch(client, checkpoint, target, mode, trust_host)
    if quiet:
        typer.echo(target)
    else:
        show(checkpoint, target)


def _chosen(client: Client, trial_id: int, *, best: bool) -> dict[str, Any]:
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


def _is_stored(checkpoint: dict[str, Any]) -> bool:
    return checkpoint["state"] in DOWNLOADABLE


def _metric(checkpoint: dict[str, Any]) -> float | None:
    value = (checkpoint.get("training") or {}).get("searcherMetric")
    return None if value in (None, "NaN") else float(value)


def check_log_options(follow: bool, head: int | None, tail: int | None) -> None:
    if sum(map(bool, (follow, head, tail))) > 1:
        raise InvalidArgument("Use only one of --follow, --head and --tail")


def _print_trial(trial: dict[str, Any]) -> None:
    print_fields(
        [
            ("trial", trial.get("id")),
            ("experiment", trial.get("experimentId")),
            ("task", trial.get("taskId")),
            ("state", state_name(trial.get("state"))),
            ("waiting for", waiting_text(trial)),
            ("error", trial.get("error")),
            ("started", local_time(trial.get("startTime"))),
            ("ended", local_time(trial.get("endTime"))),
            ("steps", trial.get("totalBatchesProcessed")),
            ("restarts", trial.get("restarts")),
            ("searcher metric", trial.get("searcherMetricValue")),
            ("hyperparameters", trial.get("hparams")),
        ]
    )
    typer.echo("")


def _row(workload: dict[str, Any], all_metrics: bool) -> list[Any]:
    for kind in ("training", "validation", "checkpoint"):
        content = workload.get(kind)
        if not content:
            continue
        if kind == "checkpoint":
            detail: Any = f"{content.get('uuid')} {state_name(content.get('state'))}"
        else:
            detail = content.get("metrics") or {}
            detail = detail if all_metrics else detail.get("avgMetrics")
        return [content.get("totalBatches"), local_time(content.get("endTime")), kind, detail]
    return [None, "", "", ""]
