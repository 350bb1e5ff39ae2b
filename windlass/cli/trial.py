"""`det trial`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.completion import TrialId
from windlass.cli.connect import client_for
from windlass.cli.failures import error_of, print_trial_failure
from windlass.cli.follow import print_logs
from windlass.cli.groups import AliasedGroup
from windlass.cli.output import (
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
from windlass.cli.times import UtcOption, local_time

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


def check_log_options(follow: bool, head: int | None, tail: int | None) -> None:
    if sum(map(bool, (follow, head, tail))) > 1:
        raise InvalidArgument("Use only one of --follow, --head and --tail")


def _print_trial(trial: dict[str, Any]) -> None:
    print_fields(
        [
            ("trial", trial.get("id")),
            ("experiment", trial.get("experimentId")),
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
