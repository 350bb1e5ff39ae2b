"""`det job`: the job queue, and why jobs wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import typer

from windlass.base.errors import InvalidArgument, InvalidState, NotFound
from windlass.base.formats.plurals import counted
from windlass.base.option_groups import with_groups
from windlass.cli.completion import complete_jobs, complete_pools
from windlass.cli.connect import client_for
from windlass.cli.groups import AliasedGroup, command_group
from windlass.cli.job.words import (
    in_names,
    known_pool,
    parse_operation,
    resolve,
    waiting_in_names,
)
from windlass.cli.output.columns import WAITING, Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_fields, print_json, say, state_name
from windlass.cli.output.times import UtcOption, local_time
from windlass.sdk.client import Client
from windlass.sdk.wire import Json


class JobGroup(AliasedGroup):
    aliases: ClassVar[dict[str, str]] = {"ls": "list", "u": "update"}


app = command_group(cls=JobGroup)

STARTS = {
    "PULLING": "; its image is being pulled or built",
    "STARTING": "; it is being started",
}
"""By the state of an allocation that has its slots."""
JobId = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Job id or command id (or its first characters), or experiment id.",
        autocompletion=complete_jobs,
    ),
]


@app.command("list")
@with_groups
def list_jobs(
    ctx: typer.Context,
    *,
    pool: Annotated[
        str | None,
        typer.Option(
            "-p",
            "--resource-pool",
            help="Show this pool instead of the default one.",
            autocompletion=complete_pools,
        ),
    ] = None,
    offset: Annotated[int, typer.Option(min=0, help="Skip this many rows.")] = 0,
    reverse: Annotated[bool, typer.Option("--reverse", help="Show the last ones first.")] = False,
    out: TableOptions,
) -> None:
    """List queued and running jobs in queue order. # is the number of jobs ahead."""
    client = client_for(ctx)
    with known_pool(client, pool):
        jobs = client.jobs(pool=pool, limit=out.limit, offset=offset, reverse=reverse)
    out.show(JOBS if out.as_json else _with_names(client, jobs, pool), jobs)


@app.command()
def update(
    ctx: typer.Context,
    job_id: JobId,
    priority: Annotated[
        int | None,
        typer.Option("-p", "--priority", help="Set the priority, 1 (highest) to 99."),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option("-w", "--weight", help="Set the fair-share weight."),
    ] = None,
    resource_pool: Annotated[
        str | None,
        typer.Option(
            "--resource-pool",
            help="Move an experiment to this pool.",
            autocompletion=complete_pools,
        ),
    ] = None,
    ahead_of: Annotated[
        str | None, typer.Option("--ahead-of", help="Move ahead of this job.")
    ] = None,
    behind_of: Annotated[
        str | None, typer.Option("--behind-of", help="Move behind this job.")
    ] = None,
) -> None:
    """Change the priority, weight, pool or position of a job."""
    options = {
        "priority": priority,
        "weight": weight,
        "resourcePool": resource_pool,
        "aheadOf": ahead_of,
        "behindOf": behind_of,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if len(given) != 1:
        raise InvalidArgument(
            "Give exactly one of --priority, --weight, --resource-pool, --ahead-of and --behind-of"
        )
    if resource_pool == "":
        raise InvalidArgument("--resource-pool: expected the name of a pool, but it is empty")
    client = client_for(ctx)
    whole = _resolved(client, {"jobId": job_id, **given})
    with known_pool(client, resource_pool):
        client.update_jobs([whole])
    notice(f"Updated job {whole['jobId']}")


@app.command("update-batch")
def update_batch(
    ctx: typer.Context,
    operations: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB.OPERATION=VALUE...",
            help="Operations: priority, weight, resource-pool, ahead-of, behind-of.",
        ),
    ],
) -> None:
    """Change several jobs. All changes are tried; those that fail are listed."""
    updates = [parse_operation(operation) for operation in operations]
    client = client_for(ctx)
    client.update_jobs([_resolved(client, update, strict=False) for update in updates])
    notice(f"Made {counted(len(updates), 'update')}")


@app.command()
def explain(
    ctx: typer.Context, job_id: JobId, as_json: JsonOption = False, utc: UtcOption = False
) -> None:
    """Show why a job waits, what would help, when it should start, and what it uses."""
    client = client_for(ctx)
    explained = client.explain_job(resolve(client, job_id))
    if as_json:
        print_json(explained)
        return
    job, waiting = explained["job"], explained["waiting"]
    texts = [explained["lastRelease"] or "", *(run["reason"]["text"] for run in waiting)]
    last_release, *reasons = in_names(client, texts)
    print_fields(
        [
            ("job", job["jobId"]),
            ("type", f"{_type(job)} {job['entityId']}: {job['name']}"),
            ("user", job["username"]),
            ("pool", job["resourcePool"]),
            ("priority", job.get("priority")),
            ("weight", job.get("weight")),
            ("max_slots", job.get("maxSlots")),
            ("state", explained["text"]),
            ("last preemption", last_release),
        ]
    )
    for alike in _alike([{**one, "why": why} for one, why in zip(waiting, reasons, strict=True)]):
        _print_waiting(alike)
    more = int(explained["waitingTotal"]) - len(waiting)
    if more > 0:
        typer.echo(f"\n{more} more allocation{'s' * (more != 1)} of it wait{'s' * (more == 1)}")
    for run in explained["holding"]:
        leaving = "; being preempted" * bool(run["releasing"])
        say(
            f"\n{run['name']} uses{_places(run)}{_since(run)}{_start(run)}{leaving}{_fell_back(run)}"
        )


def _alike(waiting: Sequence[Json]) -> list[list[Json]]:
    """Allocations that wait for the same kind of reason and for as long, in the order of their first."""
    groups: dict[tuple[Any, ...], list[Json]] = {}
    for run in waiting:
        said = (run["slots"], run["reason"]["kind"], run["advice"], run["expectedStart"])
        groups.setdefault(said, []).append(run)
    return list(groups.values())


def _print_waiting(runs: Sequence[Json]) -> None:
    first, others = runs[0], len(runs) - 1
    who = f"{first['name']} and {others} more wait" if others else f"{first['name']} waits"
    each = " each" * bool(others and first["slots"] is not None)
    say(f"\n{who}{_slots(first)}{each}{_since(first)}")
    expected = local_time(first["expectedStart"])
    why, why_last = first["why"], runs[-1]["why"]
    print_fields(
        [
            ("  reason", why),
            ("  reason of the last", why_last if why_last != why else None),
            ("  what helps", first["advice"]),
            ("  expected to start", expected or "not known"),
        ]
    )


def _resolved(client: Client, update: Json, *, strict: bool = True) -> Json:
    """The same with whole job ids. Not `strict`: what stands for no job is left for the master to refuse."""
    whole = dict(update)
    for key in ("jobId", "aheadOf", "behindOf"):
        if key in update:
            try:
                whole[key] = resolve(client, update[key])
            except (NotFound, InvalidState):
                if strict:
                    raise
    return whole


def _with_names(client: Client, jobs: Sequence[Json], pool: str | None) -> Table:
    """What they wait for in names of tasks, and the one number that their pool goes by."""
    waiting = waiting_in_names(client, jobs)
    unused = "Weight" if _serves_priorities(client.resource_pools(), pool) else "Priority"
    columns = [waiting if column is WAITING else column for column in JOBS.columns]
    return JOBS.with_columns(one for one in columns if one.name != unused)


def _serves_priorities(pools: Sequence[Json], name: str | None) -> bool:
    found = [p for p in pools if (p.get("name") == name if name else p.get("defaultComputePool"))]
    return any(pool.get("schedulerType") == "SCHEDULER_TYPE_PRIORITY" for pool in found)


def _ahead(job: Json) -> int:
    return int((job.get("summary") or {}).get("jobsAhead", -1))


def _name(job: Json) -> str | None:
    name = job.get("name")
    return f"{name} ({job.get('entityId')})" if _type(job) == "experiment" else name


def _type(job: Json) -> str:
    return str(job.get("type", "")).removeprefix("TYPE_").lower()


def _slots(run: Json) -> str:
    slots = run["slots"]
    return "" if slots is None else f" for {counted(slots, 'slot')}"


def _places(run: Json) -> str:
    agents = ", ".join(run["agents"])
    return f" {counted(run['slots'], 'slot')}" + (f" on {agents}" if agents else "")


def _start(run: Json) -> str:
    """How far it is before it runs; masters of 0.1 do not say."""
    return STARTS.get(run.get("state", ""), "")


def _fell_back(run: Json) -> str:
    if not run.get("fellBack"):
        return ""
    return f"; it runs in resource pool '{run['resourcePool']}', as {run['fellBack']}"


def _since(run: Json) -> str:
    since = local_time(run["since"])
    return f" since {since}" if since else ""


JOBS = Table(
    Column("#", _ahead, lambda ahead: ahead if ahead >= 0 else "N/A"),
    Column("ID", "jobId", is_id=True),
    Column("Type", _type),
    Column("Name", _name),
    Column("Priority", "priority"),
    Column("Weight", "weight"),
    Column("Slots", lambda job: f"{job.get('allocatedSlots')}/{job.get('requestedSlots')}"),
    Column("State", "summary.state", state_name),
    WAITING,
    Column("User", "username"),
    named_by="ID",
)
