"""`windlass hpc ...`: a private master on a cluster with Slurm or PBS, without root."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from master.hpc.cli_options import DirOption, LoginOptions, SiteOptions
from windlass.base.checks import Check, CheckStatus
from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.output.columns import JsonOption, print_rows
from windlass.cli.output.text import notice, print_json

app = typer.Typer(
    name="hpc",
    help="Run a private master on a Slurm or PBS cluster, without root.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
@with_groups
def up(
    ctx: typer.Context,
    *,
    site: SiteOptions,
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
    as_job: Annotated[
        bool,
        typer.Option(
            "--as-job", help="Run the master as a batch job, in legs of one walltime each."
        ),
    ] = False,
    queue: Annotated[
        str,
        typer.Option(
            help="Submit that job to this partition or queue. Default: one without GPUs.",
            show_default=False,
        ),
    ] = "",
    walltime: Annotated[
        str | None,
        typer.Option(
            help="Give each leg so much time. Default: what the queue gives, 24h at most.",
            show_default=False,
        ),
    ] = None,
    login: LoginOptions,
) -> None:
    """Find out what the site has, write master.yaml, start a master on this machine, and log in.

    A master.yaml that is there is used as it is.
    """
    _run_on_login_node(ctx, login)
    from master.hpc import up as starting

    if not as_job and (queue or walltime):
        raise InvalidArgument("--queue and --walltime need --as-job")
    wishes = starting.UpOptions(
        where=site.where(),
        account=site.account,
        overwrite=overwrite,
        restart=restart,
        as_job=as_job,
        queue=queue,
        walltime_s=_seconds("--walltime", walltime),
    )
    for line in starting.up(wishes, say=notice, report=_print_problems):
        typer.echo(line)


@app.command()
@with_groups
def check(
    ctx: typer.Context,
    *,
    site: SiteOptions,
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
    login: LoginOptions,
) -> None:
    """Check whether this site can run a private master, and show what to change if not.

    The exit code is 1 if a check failed.
    """
    _run_on_login_node(ctx, login)
    from master.hpc.site.check import checks_of

    limit_s = _seconds("--probe-timeout", probe_timeout) if probe else None
    from windlass.cli.doctor import print_checks

    print_checks(
        asyncio.run(checks_of(site.where(), account=site.account, probe_limit_s=limit_s)), as_json
    )


@app.command()
@with_groups
def status(
    ctx: typer.Context,
    *,
    dir_: DirOption = None,
    as_json: JsonOption = False,
    login: LoginOptions,
) -> None:
    """Show where the master runs, and its batch jobs. The exit code is 1 if it does not run, or those are not known."""
    _run_on_login_node(ctx, login)
    from master.hpc.status import described, look

    found = asyncio.run(look(dir_))
    if as_json:
        print_json(described(found))
    else:
        typer.echo(found.words)
        if found.jobs:
            rows = [[j.job_id, j.name, j.state, ",".join(j.nodes), j.words] for j in found.jobs]
            print_rows(["Job", "Name", "State", "Nodes", "Reason"], rows)
        elif not found.jobs_problem:
            typer.echo("No batch jobs")
    if found.jobs_problem:
        typer.echo(f"Its batch jobs are not known: {found.jobs_problem}", err=True)
    if found.jobs_problem or not found.is_up:
        raise typer.Exit(1)


@app.command()
@with_groups
def down(
    ctx: typer.Context,
    *,
    dir_: DirOption = None,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Cancel its batch jobs, too. Their trials end as cancelled."),
    ] = False,
    login: LoginOptions,
) -> None:
    """Stop the master. Batch jobs go on, and the next `windlass hpc up` takes them over."""
    _run_on_login_node(ctx, login)
    from master.hpc.down import down as end

    for line in end(dir_, cancel=cancel):
        typer.echo(line)


def _seconds(option: str, text: str | None) -> float | None:
    """Raises InvalidArgument."""
    from windlass.base.formats.durations import parse_duration

    try:
        return None if text is None else parse_duration(text).total_seconds()
    except ValueError as error:
        raise InvalidArgument(f"{option}: {error}") from None


def _print_problems(checks: list[Check]) -> None:
    """What did not go well; raises typer.Exit(1) if something failed."""
    for check in checks:
        if check.status is not CheckStatus.OK:
            word = "error" if check.status is CheckStatus.FAILED else "warning"
            notice(f"{word}: {check.name}: {check.found}: {check.advice}")
    if any(check.status is CheckStatus.FAILED for check in checks):
        raise typer.Exit(1)


def _run_on_login_node(ctx: typer.Context, login: LoginOptions) -> None:
    """With --ssh: the same command there. Raises typer.Exit with its exit code."""
    there = login.login()
    if there is None:
        return
    from master.hpc.remote import run_there

    words = [ctx.info_name or ""]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        value = ctx.params.get(name)
        if name.startswith("ssh") or value in (None, "", False):
            continue
        words += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    said = run_there(there, words)
    typer.echo(said.err, nl=False, err=True)
    typer.echo(said.out, nl=False)
    raise typer.Exit(said.code)
