"""`det fleet batch-jobs`: the jobs that this cluster has at Slurm or PBS, and what the site says of them."""

from __future__ import annotations

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.fleet.machines import length
from windlass.cli.output.columns import Column, Table, TableOptions
from windlass.cli.output.times import local_time
from windlass.sdk.wire import Json


@with_groups
def batch_jobs(ctx: typer.Context, out: TableOptions) -> None:
    """List the jobs of this cluster at Slurm or PBS: the site's state, nodes and time limit, and for which work."""
    out.show(BATCH_JOBS, client_for(ctx).batch_jobs())


def _work(job: Json) -> str:
    names = dict.fromkeys(each["name"] for each in job["work"])
    hidden = job["runs"] - len(job["work"])
    return ", ".join([*names, *([f"{hidden} of others"] if hidden else [])])


def _walltime(seconds: float | None) -> str:
    return "default" if seconds is None else length(seconds)


BATCH_JOBS = Table(
    Column("Job", "jobId"),
    Column("Name", "name"),
    Column("Pool", "pool"),
    Column("System", "system"),
    Column("Queue", "queue"),
    Column("For", "purpose"),
    Column("State", "stage"),
    Column("At the site", "siteState"),
    Column("Nodes", "nodes"),
    Column("On", "nodeNames", ", ".join),
    Column("Slots", "slots"),
    Column("Walltime", "walltimeS", _walltime),
    Column("Starts", "startsAt", local_time),
    Column("Ends", "endsAt", local_time),
    Column("Work", _work),
    Column("Reason", "reason", below="waits"),
    give_way=("System", "Name", "On", "Slots", "Starts", "Walltime", "Queue", "Pool"),
)
