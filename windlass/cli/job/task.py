"""`det task`: generic tasks; and of any task by its id its log, its batch jobs and its ports."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.formats.plurals import counted
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import command_group
from windlass.cli.job.generic import add_generic
from windlass.cli.job.log_search import LogSearch
from windlass.cli.job.words import full_task_id, waiting_in_names
from windlass.cli.output.columns import WAITING, Column, Table, TableOptions, decimals
from windlass.cli.output.follow import LogView
from windlass.cli.output.text import STATE, notice, state_name
from windlass.cli.output.times import local_time
from windlass.sdk.generic import GenericTasks
from windlass.sdk.operation import Operation
from windlass.sdk.wire import Json

app = command_group()
TaskId = Annotated[str, typer.Argument(help="Task id, or its first characters.")]
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


@app.command("cleanup-logs")
def cleanup_logs(ctx: typer.Context) -> None:
    """Delete the logs of tasks that have been kept for long enough. For administrators."""
    with for_administrators():
        lines = Operation(client_for(ctx).session).clean_up_logs()
    notice(f"Deleted {counted(lines, 'line')} of logs")


def _name(task: Json) -> str:
    """Without the id, which names of generic tasks end with."""
    return str(task.get("name") or "").removesuffix(f" {task['taskId']}")


def _state(task: Json) -> str:
    """Masters of 0.1 do not say it."""
    return str(task.get("taskState") or task.get("state") or "")


TASKS = Table(
    Column("Task ID", "taskId", is_id=True),
    Column("Name", _name),
    Column(STATE, _state, lambda state: state_name(state.removeprefix("GENERIC_TASK_"))),
    Column("Pool", "resourcePool"),
    Column("Slots", "slotsNeeded"),
    Column("Registered", "registeredTime", local_time),
    Column("Ends", "endsAt", local_time),
    Column(
        "Agents",
        lambda task: sorted(
            {id_ for each in task.get("resources") or () for id_ in each["agentDevices"]}
        ),
        ",".join,
    ),
    WAITING,
)
EXIT_STATUS = Column("Exit status", "exitStatus")
"""Where tasks are listed that are over."""


@app.command("list")
@with_groups
def list_tasks(
    ctx: typer.Context,
    *,
    ended: Annotated[
        bool, typer.Option("-a", "--all", help="Include generic tasks that are over.")
    ] = False,
    out: TableOptions,
) -> None:
    """List the tasks that run or wait, and generic tasks that are paused.

    "Ends": when the time of their nodes is over, such as that of a batch job.
    """
    client = client_for(ctx)
    tasks = client.live_allocations()
    live = {task["taskId"] for task in tasks}
    tasks += [one for one in GenericTasks(client).listed(ended=ended) if one["taskId"] not in live]
    columns = [*TASKS.columns, EXIT_STATUS] if ended else TASKS.columns
    if not out.as_json:
        waiting = waiting_in_names(client, tasks)
        columns = [waiting if column is WAITING else column for column in columns]
    out.show(TASKS.with_columns(columns), tasks)


add_generic(app)


@app.command("batch-jobs")
@with_groups
def batch_jobs(ctx: typer.Context, task_id: TaskId, out: TableOptions) -> None:
    """List the jobs of Slurm or PBS on which a task ran: nodes, account, GPU hours."""
    client = client_for(ctx)
    out.show(BATCH_JOBS, client.task(full_task_id(client, task_id))["batchJobs"])


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
    client = client_for(ctx)
    session = client.session
    services = services_of(session, full_task_id(client, task_id), wanted.values())
    run_tunnels(session, {local: services[port] for local, port in wanted.items()}, notice)


@app.command()
@with_groups
def logs(ctx: typer.Context, task_id: TaskId, which: LogSearch, out: LogView) -> None:
    """Print the log of a task of any kind, or the lines of it that are searched for."""
    is_search = which.is_asked(out)
    client = client_for(ctx)
    task = full_task_id(client, task_id)
    if is_search:
        which.show(client, task, out)
    else:
        out.show(client.task_logs, task)
