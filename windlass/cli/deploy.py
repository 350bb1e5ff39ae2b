"""`det deploy local`: a cluster on this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.local_cluster import (
    ClusterState,
    Plan,
    bring_down,
    bring_up,
    default_data_dir,
    read_state,
)
from windlass.cli.local_login import log_in
from windlass.cli.output import JsonOption, notice, print_json, print_rows
from windlass.sdk.credentials import DEFAULT_USER

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Start and stop a cluster.")
local = typer.Typer(no_args_is_help=True, help="Manage a cluster on this machine.")
app.add_typer(local, name="local")

DEFAULT_PORT = 8080
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Keep its data here (default: ~/.local/share/windlass/local)."),
]


@local.command("cluster-up")
def cluster_up(
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Set the port of the master.")
    ] = DEFAULT_PORT,
    agents: Annotated[int, typer.Option(min=0, max=64, help="Start this many agents.")] = 1,
    slots_per_agent: Annotated[
        int | None,
        typer.Option(
            min=0, max=1024, help="Give each agent artificial slots, to try without GPUs."
        ),
    ] = None,
    no_gpu: Annotated[bool, typer.Option("--no-gpu", help="Do not use GPUs.")] = False,
    master_config: Annotated[
        Path | None, typer.Option("--master-config", help="Use this master.yaml.")
    ] = None,
    initial_user_password: Annotated[
        str | None,
        typer.Option(
            help="Set the password of admin and determined at the first start. Default: a random one, in a file. "
            "While this command runs, other users of this machine can read the option."
        ),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Start a master and agents, wait until they answer, and log in."""
    if master_config is not None and not master_config.is_file():
        raise InvalidArgument(f"--master-config {master_config}: no such file")
    plan = Plan(
        data_dir=_data_dir(data_dir),
        port=port,
        agents=agents,
        slots_per_agent=slots_per_agent,
        no_gpu=no_gpu,
        master_config=master_config,
        initial_user_password=initial_user_password,
    )
    state = _with_spinner(plan)
    _tell(plan, state.url, logged_in=log_in(plan))
    where = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
    master = "" if port == DEFAULT_PORT else f"-m {state.url} "
    typer.echo(f"Try: det {master}agent list    Stop it: det deploy local cluster-down{where}")


def _tell(plan: Plan, url: str, *, logged_in: bool) -> None:
    if not logged_in:
        typer.echo(f"The cluster is up at {url}. Log in: det -m {url} user login {DEFAULT_USER}")
        return
    typer.echo(f"The cluster is up at {url}, and you are logged in as {DEFAULT_USER}.")
    if plan.password_file.exists():
        file = shlex.quote(str(plan.password_file))
        typer.echo(f"Password of admin and {DEFAULT_USER}, unless changed: {file}")
        typer.echo(
            "Published client: "
            f'export DET_MASTER={url} DET_USER={DEFAULT_USER} DET_PASS="$(cat {file})"'
        )


@local.command("cluster-down")
def cluster_down(data_dir: DataDirOption = None) -> None:
    """Stop the master, its agents and their tasks. Data is kept."""
    ended = bring_down(_data_dir(data_dir))
    if ended:
        typer.echo(f"Stopped: {', '.join(ended)}")
    else:
        notice("No cluster was running")


@local.command()
def status(data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show the processes of the cluster. The exit code is 0 if all are running."""
    directory = _data_dir(data_dir)
    state = read_state(directory) or ClusterState("")
    rows = [
        [
            record.name,
            "running" if record.is_alive else "gone",
            record.pid,
            directory / "logs" / f"{record.name}.log",
        ]
        for record in state.processes
    ]
    if as_json:
        keys = ("name", "state", "pid", "log")
        processes = [dict(zip(keys, row, strict=True)) for row in rows]
        print_json({"url": state.url, "processes": processes})
    elif rows:
        typer.echo(state.url)
        print_rows(["Process", "State", "PID", "Log"], rows)
    else:
        notice(f"No cluster in {directory}")
    if not rows or len(state.alive) < len(rows):
        raise typer.Exit(1)


def _data_dir(given: Path | None) -> Path:
    return (given or default_data_dir()).absolute()


def _with_spinner(plan: Plan) -> ClusterState:
    if not sys.stderr.isatty():
        return bring_up(plan, notice)
    from rich.console import Console

    with Console(stderr=True).status("Starting") as spinner:
        return bring_up(plan, spinner.update)
