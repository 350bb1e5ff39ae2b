"""`windlass hpc ...`: a private master on a cluster with Slurm or PBS, without root."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from windlass.base.checks import Check, Status
from windlass.base.errors import InvalidArgument
from windlass.cli.output import JsonOption, notice, print_json, print_rows

app = typer.Typer(
    name="hpc",
    help="Run a private master on a Slurm or PBS cluster, without root.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

DirOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        help="Keep master.yaml, jobs and checkpoints in this folder, which all nodes see. "
        "Default: windlass in $HOME, $WORK, $PROJECT or $SCRATCH, the first that is shared.",
        show_default=False,
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        help="Keep the database here, on a local disk. Default: ~/.local/share/windlass/hpc "
        "or a folder in /var/tmp or /tmp, the first on a local disk.",
        show_default=False,
    ),
]
HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        help="Listen on this address, which nodes reach. Default: that of the interface to the nodes.",
        show_default=False,
    ),
]
AccountOption = Annotated[
    str, typer.Option(help="Let this account pay for jobs.", show_default=False)
]
PathOption = Annotated[
    str,
    typer.Option(
        help="Look for the commands of the batch system in these folders first, with colons between.",
        show_default=False,
    ),
]


@app.command()
def up(
    *,
    dir_: DirOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    account: AccountOption = "",
    path: PathOption = "",
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Write master.yaml anew; the old one becomes master.yaml.old."
        ),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Restart a master that runs. Its tasks go on."),
    ] = False,
) -> None:
    """Find out what the site has, write master.yaml, start a master on this machine, and log in.

    A master.yaml that is there is used as it is.
    """
    from master.hpc import up as starting
    from master.hpc.gather import Where

    where = Where(shared=dir_, data=data_dir, address=host, path=path)
    wishes = starting.Wishes(where=where, account=account, overwrite=overwrite, restart=restart)
    for line in starting.up(wishes, say=notice, report=_print_problems):
        typer.echo(line)


@app.command()
def check(
    *,
    dir_: DirOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    account: AccountOption = "",
    path: PathOption = "",
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Submit a short job to each partition or queue, to see what nodes have.",
        ),
    ] = False,
    probe_timeout: Annotated[
        str, typer.Option(help="Wait so long for the jobs of --probe to start.")
    ] = "5m",
    as_json: JsonOption = False,
) -> None:
    """Check whether this site can run a private master, and say the way out of what stands against it.

    The exit code is 1 if a check failed.
    """
    from master.hpc.check import checks_of
    from master.hpc.gather import Where
    from windlass.base.durations import parse_duration

    where = Where(shared=dir_, data=data_dir, address=host, path=path)
    try:
        limit_s = parse_duration(probe_timeout).total_seconds() if probe else None
    except ValueError as error:
        raise InvalidArgument(f"--probe-timeout: {error}") from None
    _print_checks(asyncio.run(checks_of(where, account=account, probe_limit_s=limit_s)), as_json)


@app.command()
def status(*, dir_: DirOption = None, as_json: JsonOption = False) -> None:
    """Show where the master runs, and its batch jobs. The exit code is 1 if it does not run."""
    from master.hpc.status import described, look

    found = asyncio.run(look(dir_))
    if as_json:
        print_json(described(found))
    else:
        typer.echo(found.words)
        if found.jobs:
            rows = [[j.job_id, j.name, j.state, ",".join(j.nodes), j.words] for j in found.jobs]
            print_rows(["Job", "Name", "State", "Nodes", "Reason"], rows)
        else:
            typer.echo(found.jobs_problem or "No batch jobs")
    if not found.is_up:
        raise typer.Exit(1)


@app.command()
def down(
    *,
    dir_: DirOption = None,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Cancel its batch jobs, too. Their trials end as cancelled."),
    ] = False,
) -> None:
    """Stop the master. Batch jobs go on, and the next `windlass hpc up` takes them over."""
    from master.hpc.down import down as end

    for line in end(dir_, cancel=cancel):
        typer.echo(line)


def _print_problems(checks: list[Check]) -> None:
    """What did not go well; raises typer.Exit(1) if something failed."""
    for check in checks:
        if check.status is not Status.OK:
            word = "error" if check.status is Status.FAILED else "warning"
            notice(f"{word}: {check.name}: {check.found}: {check.advice}")
    if any(check.status is Status.FAILED for check in checks):
        raise typer.Exit(1)


def _print_checks(checks: list[Check], as_json: bool) -> None:
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        rows = [[check.name, check.status.value, check.found] for check in checks]
        print_rows(["Check", "State", "Found"], rows)
        for check in checks:
            if check.status is not Status.OK:
                typer.echo(f"{check.name}: {check.advice}")
    if any(check.status is Status.FAILED for check in checks):
        raise typer.Exit(1)
