"""The entry point of `det` and `windlass`. Imports little, so that --help and completion are quick."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from windlass import __version__
from windlass.cli import quick_values
from windlass.cli.groups import LazyCommand, RootGroup


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    master: str | None = None
    user: str | None = None


class DetGroup(RootGroup):
    operators = {"simulate": "Show what a master.yaml would cost on a trace of jobs."}  # noqa: RUF012 - as `lazy`
    lazy = {  # noqa: RUF012 - declared as a class variable in RootGroup
        "agent": LazyCommand(
            module="windlass.cli.cluster.agent",
            help="List and drain machines; run an agent.",
            aliases=("a",),
        ),
        "checkpoint": LazyCommand(
            module="windlass.cli.experiment.checkpoint",
            help="Show, download and delete checkpoints.",
            aliases=("c",),
        ),
        "command": LazyCommand(
            module="windlass.cli.job.command", help="Run and control commands.", aliases=("cmd",)
        ),
        "deploy": LazyCommand(
            module="windlass.cli.deploy.local", help="Start and stop a cluster.", aliases=("d",)
        ),
        "experiment": LazyCommand(
            module="windlass.cli.experiment.commands",
            help="Submit, watch and control experiments.",
            aliases=("e",),
        ),
        "fleet": LazyCommand(
            module="windlass.cli.fleet.commands",
            help="Show the machines of elastic pools and their costs.",
        ),
        "hpc": LazyCommand(
            module="windlass.cli.cluster.hpc",
            help="Run a private master on a Slurm or PBS cluster.",
        ),
        "job": LazyCommand(
            module="windlass.cli.job.commands", help="Manage the job queue.", aliases=("j",)
        ),
        "master": LazyCommand(
            module="windlass.cli.cluster.master", help="Show the master; run one.", aliases=("m",)
        ),
        "resource-pool": LazyCommand(
            module="windlass.cli.cluster.resource_pool",
            help="List resource pools.",
            aliases=("rp",),
        ),
        "slot": LazyCommand(
            module="windlass.cli.cluster.slot",
            help="List and drain single GPUs and other slots.",
            aliases=("s",),
        ),
        "task": LazyCommand(module="windlass.cli.job.task", help="Show the logs of tasks."),
        "trial": LazyCommand(
            module="windlass.cli.experiment.trial",
            help="Show trials and their logs.",
            aliases=("t",),
        ),
        "user": LazyCommand(
            module="windlass.cli.cluster.user", help="Log in and out; manage users.", aliases=("u",)
        ),
    }


app = typer.Typer(
    cls=DetGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run experiments on an elastic GPU cluster.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"windlass {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    master: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--master",
            help="Set the URL of the master (default: DET_MASTER, else http://localhost:8080).",
        ),
    ] = None,
    user: Annotated[str | None, typer.Option("-u", "--user", help="Run as this user.")] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_show_version,
            help="Print the version of this client.",
        ),
    ] = False,
) -> None:
    ctx.obj = Settings(master, user)


@app.command()
def version(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the version of this client, and of the master if it can be reached."""
    from windlass.cli.version import show_version

    show_version(ctx.find_object(Settings) or Settings(), as_json)


@app.command()
def doctor(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask a master.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="WINDLASS_DATA_DIR",
            help="Check the security of the master with this data folder. "
            "Default: that of this machine, or of `det deploy local`.",
            show_default=False,
        ),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(envvar="DET_CONFIG_FILE", help="Check this master.yaml.", show_default=False),
    ] = None,
) -> None:
    """Check this installation, the security of a master on this machine, and the connection to the master.

    The exit code is 1 if a check failed.
    """
    from windlass.cli.doctor import run_doctor

    # Where the checks of the extras look, as the commands of a master do.
    given = {"WINDLASS_DATA_DIR": data_dir, "DET_CONFIG_FILE": config_file}
    os.environ.update({name: str(path) for name, path in given.items() if path is not None})
    run_doctor(ctx.find_object(Settings) or Settings(), as_json, offline=offline)


def run() -> None:
    """What the scripts `det` and `windlass` call. Tracebacks are shown only with WINDLASS_DEBUG."""
    quick_values.install()
    try:
        app()
    except Exception as error:  # noqa: BLE001 - an unforeseen error is one line, too
        if os.environ.get("WINDLASS_DEBUG"):
            traceback.print_exc()
        text = " ".join(str(error).split()) or type(error).__name__
        print(
            f"error: {type(error).__name__}: {text} (this is a bug; set WINDLASS_DEBUG=1 for the traceback)",
            file=sys.stderr,
        )
        sys.exit(1)


if __name__ == "__main__":
    run()
