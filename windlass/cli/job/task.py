"""`det task`: the log and the batch jobs of any task by its id, those that delete checkpoints included."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.cli.connect import client_for
from windlass.cli.experiment.trial import HeadOption, TailOption, check_log_options
from windlass.cli.groups import AliasedGroup
from windlass.cli.job.command_watch import print_task_logs
from windlass.cli.output.text import JsonOption, RawOption, print_json, print_rows
from windlass.cli.output.times import local_time

app = typer.Typer(
    cls=AliasedGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Show the logs and batch jobs of tasks.",
)


@app.callback()
def tasks() -> None:
    """Show the logs and batch jobs of tasks."""


@app.command("batch-jobs")
def batch_jobs(
    ctx: typer.Context,
    task_id: Annotated[str, typer.Argument(help="Task id.")],
    as_json: JsonOption = False,
) -> None:
    """List the jobs of Slurm or PBS on which a task ran: nodes, account, GPU hours."""
    jobs = client_for(ctx).task(task_id)["batchJobs"]
    if as_json:
        print_json(jobs)
        return
    print_rows(
        ("Run", "Job", "Queue", "Account", "Nodes", "GPUs", "Started", "GPU hours", "State"),
        [
            (
                job["allocationId"].rpartition(".")[2],
                job["id"],
                job["queue"],
                job["account"],
                ",".join(job["nodes"]),
                job["gpus"],
                local_time(job["startTime"]),
                "" if job["gpuHours"] is None else f"{job['gpuHours']:.2f}",
                job["end"] or job["state"].lower() or "not submitted",
            )
            for job in jobs
        ],
    )


@app.command()
def logs(
    ctx: typer.Context,
    task_id: Annotated[str, typer.Argument(help="Task id.")],
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines until the task ends.")
    ] = False,
    head: HeadOption = None,
    tail: TailOption = None,
    as_json: JsonOption = False,
    raw: RawOption = False,
) -> None:
    """Print the log of a task, such as one that deletes checkpoints."""
    check_log_options(follow, head, tail)
    print_task_logs(
        client_for(ctx), task_id, follow=follow, head=head, tail=tail, as_json=as_json, raw=raw
    )
