"""`det task`: generic tasks; and of any task by its id its log, its batch jobs and its ports."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.cli.job.generic import add_generic
from windlass.cli.output.columns import Column, Table, TableOptions, decimals
from windlass.cli.output.follow import LogView
from windlass.cli.output.text import notice
from windlass.cli.output.times import local_time

app = command_group()
TaskId = Annotated[str, typer.Argument(help="Task id.")]
BATCH_JOBS = Table(
    Column("Run", lambda job: job["allocationId"].rpartition(".")[2]),
    Column("Job", "id"),
    Column("Queue", "queue"),
    Column("Account", "account"),
    Column("Nodes", "nodes", ",".join),
    Column("GPUs", "gpus"),
    Column("Started", "startTime", local_time),
    Column("GPU hours", "gpuHours", decimals(2)),
    Column("State", lambda job: job["end"] or job["state"].lower() or "not submitted"),
)


TASKS = Table(
    Column("Task ID", "taskId"),
    Column("Name", "name"),
    Column("Pool", "resourcePool"),
    Column("Slots", "slotsNeeded"),
    Column("Registered", "registeredTime", local_time),
    Column("Ends", "endsAt", local_time),
    Column(
        "Agents",
        lambda task: sorted(
            {id_ for each in task["resources"] or () for id_ in each["agentDevices"]}
        ),
        ",".join,
    ),
)


@app.command("list")
@with_groups
def list_tasks(ctx: typer.Context, out: TableOptions) -> None:
    """List the tasks that run or wait. "Ends": when the time of their nodes is over, such as that of a batch job."""
    summaries = client_for(ctx).session.get("/api/v1/tasks")["allocationIdToSummary"]
    out.show(TASKS, list(summaries.values()))


add_generic(app)


@app.command("batch-jobs")
@with_groups
def batch_jobs(ctx: typer.Context, task_id: TaskId, out: TableOptions) -> None:
    """List the jobs of Slurm or PBS on which a task ran: nodes, account, GPU hours."""
    out.show(BATCH_JOBS, client_for(ctx).task(task_id)["batchJobs"])


@app.command()
def tunnel(
    ctx: typer.Context,
    task_id: TaskId,
    ports: Annotated[
        list[str],
        typer.Argument(help="Port of the task, or LOCAL:PORT.", metavar="[LOCAL:]PORT..."),
    ],
) -> None:
    """Lead ports of this machine to TCP ports of a running task, until Ctrl-C.

    The task names them in environment.proxy_ports of its configuration, with proxy_tcp: true.
    """
    from windlass.sdk.tunnel import local_ports, run_tunnels, services_of

    wanted = local_ports(ports)
    session = client_for(ctx).session
    services = services_of(session, task_id, wanted.values())
    run_tunnels(session, {local: services[port] for local, port in wanted.items()}, notice)


@app.command()
@with_groups
def logs(ctx: typer.Context, task_id: TaskId, out: LogView) -> None:
    """Print the log of a task, such as one that deletes checkpoints."""
    out.show(client_for(ctx).task_logs, task_id)
