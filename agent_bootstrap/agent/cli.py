"""`windlass agent run`: the agent as a command. Joins the one CLI through an entry point."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError
from stamina.instrumentation import set_on_retry_hooks

from agent_bootstrap.agent.batch.own_job import named_after, own_job
from agent_bootstrap.agent.bytecode import share_bytecode
from agent_bootstrap.agent.command_errors import told_errors
from agent_bootstrap.agent.connection.master_transports import MasterTransports, transports_of
from agent_bootstrap.agent.daemon import AgentDaemon, AgentEnd, lifeline_from_environment
from agent_bootstrap.agent.membership.announcement import (
    announce,
    is_running,
    parse_time,
    withdraw,
)
from agent_bootstrap.agent.membership.commands import join_command, leave_command
from agent_bootstrap.agent.membership.orphan_timer import end_machine
from agent_bootstrap.agent.membership.places import joined_config, unread_config
from agent_bootstrap.agent.option_layers import load_options, work_dir_of
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.trust_options import NO_TRUST, TrustOptions
from agent_bootstrap.images import recipe
from agent_bootstrap.log_setup import set_up_logging
from agent_bootstrap.protocol import Leaving
from windlass.base.errors import InvalidArgument, InvalidConfig, WindlassError
from windlass.base.option_groups import with_groups

app = typer.Typer(help="Run an agent on this machine.", no_args_is_help=True)


app.command("join")(join_command)
app.command("leave")(leave_command)


@app.callback()
def _group() -> None:
    """Run an agent on this machine."""


@app.command("run")
@with_groups
def run(
    master: Annotated[
        str | None,
        typer.Option(help="Connect to this master: https://host:port.", show_default=False),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Join this resource pool.")] = None,
    agent_id: Annotated[
        str | None, typer.Option(help="Use this id, unique in the cluster. Default: the host name.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="Show this label of the agent, for example rack=a12. May be repeated."),
    ] = None,
    join_token_file: Annotated[
        Path | None, typer.Option(help="Read the join token from this file (mode 0600).")
    ] = None,
    work_dir: Annotated[
        Path | None,
        typer.Option(help="Keep tasks in this directory; it must survive restarts of the agent."),
    ] = None,
    artificial_slots: Annotated[
        int | None, typer.Option(help="Offer this many artificial slots, for tests and demos.")
    ] = None,
    slot_type: Annotated[
        str | None, typer.Option(help="Offer these slots: auto, cuda, rocm, cpu or none.")
    ] = None,
    visible_gpus: Annotated[
        str | None,
        typer.Option(
            help="Offer only these GPUs: index, UUID, PCI address or serial, separated by commas."
        ),
    ] = None,
    trust: TrustOptions = NO_TRUST,
    isolation: Annotated[
        str | None, typer.Option(help="Isolate tasks by: auto, bubblewrap, namespace or directory.")
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(help="Read this agent.yaml. Default: that of `windlass agent join`, if any."),
    ] = None,
) -> None:
    """Offer this machine's slots to a master and run its tasks.

    Each option may also be a key of agent.yaml or a variable DET_<KEY> (DET_MASTER for the URL); options win over
    variables, variables over the file.

    Inside a job of Slurm or PBS it offers what the job was given, and gets no work that would neither end nor save
    itself before the job ends. Start one on each node: srun --ntasks-per-node=1 windlass agent run --master URL. On
    SIGTERM trials make a checkpoint and leave, and the agent ends when nothing runs any more; a second one ends it at
    once.

    Elsewhere SIGTERM and Ctrl-C stop the agent only: running tasks go on under their supervisors, and the next agent
    with the same --work-dir takes them over. A systemd unit needs KillMode=process for that.
    """
    flags = {
        "master_url": master,
        "resource_pool": pool,
        "agent_id": agent_id,
        "label": label or None,
        "join_token_file": join_token_file,
        "work_dir": work_dir,
        "artificial_slots": artificial_slots,
        "slot_type": slot_type,
        "visible_gpus": visible_gpus,
        "isolation": isolation,
    }
    given: dict[str, Any] = {key: value for key, value in flags.items() if value is not None}
    if tls := trust.keys():
        given["security"] = {"tls": tls}
    with told_errors(usage=(InvalidConfig,)):
        loaded = load_options(joined_config(config_file, master, os.environ), given, os.environ)
        options = loaded.options
        if (job := own_job(options, os.environ)) is not None:
            options = named_after(job, options)
        unread = "" if master else unread_config(config_file, os.environ)
        for warning in (*loaded.warnings, *filter(None, (unread,))):
            typer.echo(f"warning: {warning}", err=True)
        options.token()
        end = run_agent(options)
    if end.code:
        typer.echo(f"error: {end.reason}", err=True)
    if end.ends_machine:
        typer.echo(f"This machine is shut down: {end.reason}", err=True)
        raise typer.Exit(end.code if end_machine() else 1)
    raise typer.Exit(end.code)


@app.command("drain")
def drain(
    at: Annotated[
        str | None,
        typer.Option(
            help="When the machine goes: 18:00, or 2026-01-31T18:00, on this machine's clock unless it has a zone. "
            "Default: now; tasks leave within their usual time.",
            show_default=False,
        ),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take it back: the agent gets work again.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Say why to users and operators.")] = "maintenance",
    work_dir: Annotated[
        Path | None, typer.Option(help="The agent's directory. Default: that of agent.yaml.")
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(help="Read this agent.yaml. Default: that of `windlass agent join`, if any."),
    ] = None,
) -> None:
    """Say that this machine goes, now or at a time: its agent gets no more work, and its tasks are asked to leave.

    Trials make a checkpoint and go on elsewhere, at the latest after their preemption_timeout, or at that time. It
    holds until the machine restarts, or until --cancel; a later call may bring the time forward. Nothing is shut down.
    Run it as the agent's user, or as root.
    """
    with told_errors(usage=(WindlassError,)):
        file = joined_config(config_file, None, os.environ)
        place = work_dir or work_dir_of(file, os.environ)
        if cancel:
            typer.echo("This machine stays" if withdraw(place) else "Nothing was announced here")
            return
        now = datetime.now(UTC)
        goes = now if at is None else parse_time(at, now)
        try:
            leaving = Leaving(at=goes, reason=reason, waits=at is None)
        except ValidationError:
            raise InvalidArgument(f'--at: "{at}" is too far away') from None
        announce(place, leaving)
    told = "" if is_running(place) else "; no agent is running there, the next one will tell it"
    when = "now" if at is None else f"at {goes.isoformat(sep=' ', timespec='minutes')}"
    typer.echo(f"This machine goes {when}: {reason}{told}")


@app.command("recipe")
def recipe_command(
    name: Annotated[Literal["cpu", "cuda"], typer.Argument(help="What the image is for.")],
) -> None:
    """Print a Containerfile for images of tasks, to build as it is or to begin with.

    For example: windlass agent recipe cpu | podman build -t NAME -
    """
    typer.echo(recipe(name), nl=False)


def run_agent(options: AgentOptions) -> AgentEnd:
    """Run in this process until a signal or the master ends it."""
    set_up_logging(options.log.level, color=options.log.color)
    set_on_retry_hooks([])  # the agent tells of lost connections in its own words
    lifeline = lifeline_from_environment()
    return asyncio.run(_until_signal(options, lifeline))


async def _until_signal(options: AgentOptions, lifeline_fd: int | None) -> AgentEnd:
    transports = MasterTransports(options, transports_of(options, os.environ))
    agent = AgentDaemon(
        options,
        connect=transports.connect,
        connect_streams=transports.connect_streams,
        reached=transports.reached,
        notes=transports.notes,
        lifeline_fd=lifeline_fd,
    )
    task = asyncio.create_task(agent.run())
    sharing = asyncio.create_task(asyncio.to_thread(_share_with_tasks))
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, task.cancel)
    if agent.is_in_own_job:
        ending: list[asyncio.Task[None]] = []

        def end_with_job() -> None:
            """The second time at once."""
            if ending:
                task.cancel()
            else:
                ending.append(loop.create_task(agent.end_with_job()))

        loop.add_signal_handler(signal.SIGTERM, end_with_job)
    try:
        return await task
    except asyncio.CancelledError:
        return AgentEnd(reason="stopped by a signal; tasks go on")
    finally:
        await sharing
        await transports.close()


def _share_with_tasks() -> None:
    """Only an agent that is root runs tasks as somebody else."""
    if os.geteuid() == 0:
        share_bytecode()
