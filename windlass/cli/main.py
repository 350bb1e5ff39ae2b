"""The entry point of `det` and `windlass`. Imports little, so that --help and completion are quick."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from windlass import __version__
from windlass.cli import quick_values
from windlass.cli.groups import LazyGroup, RootGroup


class DetGroup(RootGroup):
    operators = {"simulate": "Show what a master.yaml would cost on a trace of jobs."}  # noqa: RUF012 - as `lazy`
    lazy = {  # noqa: RUF012 - declared as a class variable in RootGroup
        "admin": LazyGroup(
            "cluster.admin", "Make users, groups and what they share as a file says."
        ),
        "agent": LazyGroup("cluster.agent", "List and drain machines; run an agent.", "a"),
        "checkpoint": LazyGroup(
            "experiment.checkpoint", "Show, download and delete checkpoints.", "c"
        ),
        "command": LazyGroup("interactive.command", "Run and control commands.", "cmd"),
        "deploy": LazyGroup("deploy.commands", "Start and stop a cluster.", "d"),
        "experiment": LazyGroup(
            "experiment.commands", "Submit, watch and control experiments.", "e"
        ),
        "config-policies": LazyGroup(
            "cluster.config_policies", "Fix or bound what others submit.", "cp"
        ),
        "fleet": LazyGroup("fleet.commands", "Show the machines of elastic pools and their costs."),
        "hpc": LazyGroup("cluster.hpc", "Run a private master on a Slurm or PBS cluster."),
        "job": LazyGroup("job.commands", "Manage the job queue.", "j"),
        "master": LazyGroup("cluster.master", "Show the master; run one.", "m"),
        "model": LazyGroup("cluster.model", "Manage the model registry."),
        "notebook": LazyGroup("interactive.notebook", "Start and open notebooks."),
        "project": LazyGroup("cluster.project", "Manage projects of experiments.", "p"),
        "resource-pool": LazyGroup("cluster.resource_pool", "List resource pools.", "rp"),
        "resources": LazyGroup("cluster.resources", "Export what was used, as CSV.", "res"),
        "run": LazyGroup("experiment.run", "List trials of all experiments; act on several."),
        "shell": LazyGroup("interactive.shell", "Start and open shells, for ssh and IDEs."),
        "slot": LazyGroup("cluster.slot", "List and drain single GPUs and other slots.", "s"),
        "tensorboard": LazyGroup("interactive.tensorboard", "Start and open TensorBoards."),
        "template": LazyGroup("cluster.template", "Manage templates of configuration.", "tpl"),
        "task": LazyGroup("job.task", "Run generic tasks; show logs and batch jobs of tasks."),
        "token": LazyGroup("cluster.token", "Manage access tokens, for CI and scripts.", "tkn"),
        "trial": LazyGroup("experiment.trial", "Show trials and their logs.", "t"),
        "rbac": LazyGroup("cluster.rbac", "Give and take roles; show who holds them."),
        "user": LazyGroup("cluster.user", "Log in and out; manage users.", "u"),
        "user-group": LazyGroup("cluster.user_group", "Manage groups of users."),
        "webhook": LazyGroup("cluster.webhook", "Call other systems when experiments change."),
        "workspace": LazyGroup("cluster.workspace", "Manage workspaces.", "w"),
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
    """The options are read by `connect.settings_of`."""


@app.command()
def version(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the version of this client, and of the master if it can be reached."""
    from windlass import DETERMINED_VERSION
    from windlass.base.tls.trust import CertificateRefused
    from windlass.cli.connect import settings_of
    from windlass.cli.output.text import print_fields, print_json
    from windlass.sdk.client import Client
    from windlass.sdk.credentials import master_url, open_session
    from windlass.sdk.wire import MasterUnreachable

    url = master_url(settings_of(ctx).master, os.environ)
    master, problem = None, ""
    with open_session(url, os.environ) as session:
        try:
            master = Client(session).info()
        except MasterUnreachable:
            problem = f"cannot connect to {url}"
        except CertificateRefused as refused:
            problem = refused.message
    if as_json:
        print_json(
            {"client": __version__, "api": DETERMINED_VERSION, "masterUrl": url, "master": master}
        )
        return
    answer = problem if master is None else f"{master.get('version')} at {url}"
    print_fields([("client", __version__), ("API", DETERMINED_VERSION), ("master", answer)])
    if master is not None:
        print_fields([("cluster", master.get("cluster_name") or master.get("cluster_id"))])


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
    run_doctor(ctx, as_json, offline=offline)


@app.command()
def api(
    ctx: typer.Context,
    method: Annotated[str, typer.Argument(help="GET, POST, PUT, PATCH or DELETE.")],
    path: Annotated[str, typer.Argument(help="/api/v1/..., with its query.")],
    body: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Send the JSON of this file; -: of stdin."),
    ] = None,
) -> None:
    """Call the REST API, and print what it answers: JSON, CSV, or the lines of a stream as they come."""
    from windlass.cli.api_call import call

    call(ctx, method, path, body)


@app.command()
def search(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(help="A part of a name, or an id.")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100, help="Show at most this many.")
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Find experiments, projects, workspaces, models, templates, tasks, users, pools and agents by name or id."""
    from windlass.cli.search import search

    search(ctx, text, limit, as_json=as_json, as_csv=as_csv)


@app.command("preview-search")
def preview_search(
    ctx: typer.Context,
    config_file: Annotated[Path, typer.Argument(help="Experiment configuration (YAML).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how many trials a hyperparameter search would train, and for how long. Submits nothing."""
    from windlass.cli.experiment.preview_search import preview

    preview(ctx, config_file, as_json=as_json)


@app.command()
def web(
    ctx: typer.Context,
    page: Annotated[
        str,
        typer.Argument(help="Which page: experiments/7, queue. Default: home.", show_default=False),
    ] = "",
    no_browser: Annotated[
        bool,
        typer.Option("--no-browser", help="Print the address only, without opening a browser."),
    ] = False,
) -> None:
    """Open the web UI in a browser, logged in as you are here. On a login node, print the ssh line for it, too."""
    from windlass.cli.web_ui import show_pages

    show_pages(ctx, page, no_browser=no_browser)


@app.command()
def tunnel(
    ctx: typer.Context,
    service: Annotated[
        str, typer.Argument(help="Whole id of a shell, or TASK_ID:PORT of another task.")
    ],
    listener: Annotated[
        int | None,
        typer.Option(
            "--listener",
            min=1,
            max=65535,
            help="Lead this port of this machine to it, until Ctrl-C, instead of standard input and output.",
        ),
    ] = None,
    auth: Annotated[
        bool, typer.Option("--auth", help="Log in: ports of tasks need it, shells do not.")
    ] = False,
    cert_file: Annotated[
        str | None,
        typer.Option("--cert-file", help="Trust this certificate of the master; noverify: any."),
    ] = None,
    cert_name: Annotated[
        str | None, typer.Option("--cert-name", help="Name that the certificate must be for.")
    ] = None,
) -> None:
    """Carry bytes between standard input and output and a TCP port of a task, as a ProxyCommand of ssh does.

    `det tunnel --auth --listener 5678 TASK_ID:5678` leads a port of this machine to it.
    """
    from windlass.cli.tunnel import carry

    given = {"DET_MASTER_CERT_FILE": cert_file, "DET_MASTER_CERT_NAME": cert_name}
    os.environ.update({name: text for name, text in given.items() if text is not None})
    carry(ctx, service, listener, auth=auth)


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
