"""`windlass agent leave`: first the tasks, then the service, then the master's memory of the agent, then the files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent_bootstrap.agent.connection.credential import CREDENTIAL_FILE, load_or_create
from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerDirs
from agent_bootstrap.agent.machine import REMEMBERED
from agent_bootstrap.agent.membership.announcement import FILE as ANNOUNCEMENT
from agent_bootstrap.agent.membership.announcement import LOCK, announce, is_running
from agent_bootstrap.agent.membership.master_calls import MasterCalls, MasterRefused
from agent_bootstrap.agent.membership.places import AgentPaths
from agent_bootstrap.agent.membership.systemd import Systemd
from agent_bootstrap.agent.metadata.tasks import PORT_FILE
from agent_bootstrap.agent.option_layers import load_options
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.engine.image_record import FILE as IMAGE_RECORD
from agent_bootstrap.protocol import Leaving
from agent_bootstrap.supervisor.contact import FILE as CONTACT
from windlass.base.errors import Conflict
from windlass.base.formats.plurals import counted
from windlass.base.processes import ProcessName
from windlass.base.processes import is_running as process_runs

OWN_FILES = (
    *(CREDENTIAL_FILE, LOCK, ANNOUNCEMENT, CONTACT, IMAGE_RECORD, REMEMBERED, PORT_FILE),
    "epoch.json",
    *("containers", "trash", "unreadable", "images"),
)
"""What agents make in a work_dir."""
POLL_S = 0.5
STOP_S = 60.0
"""How long tasks that are killed may take to be gone."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell:
    places: AgentPaths
    grace: timedelta
    """How long tasks may take to leave."""
    force: bool = False
    """Kill what still runs then."""
    offline: bool = False
    """Do not ask the master: it is gone, or has forgotten the agent."""


def joined_options(places: AgentPaths) -> AgentOptions:
    """Raises InvalidConfig."""
    return load_options(places.config).options


def leave(farewell: Farewell, say: Say, *, systemd: Systemd | None = None) -> None:
    """Raises InvalidConfig, Conflict while tasks run, MasterUnreachable, MasterRefused, ServiceError, OSError."""
    options = joined_options(farewell.places)
    service = systemd or Systemd(farewell.places)
    if not farewell.offline and (options.work_dir / CREDENTIAL_FILE).exists():
        with MasterCalls(options, load_or_create(options.work_dir)) as master:
            try:
                _drain(farewell, options, master, say)
                service.remove()
                _await_stop(options.work_dir)
                master.leave(stop=farewell.force)
            except MasterRefused:
                say(f"{options.url} does not know this agent any more")
    service.remove()
    _await_stop(options.work_dir)
    _refuse_leftovers(options.work_dir)
    farewell.places.config.unlink(missing_ok=True)
    left = remove_files(options.work_dir)
    if left:
        say(
            f"{options.work_dir} stays: {counted(left, 'file or folder')} in it are not the agent's"
        )
    say(f"Agent {options.agent_id} has left {options.url}")


def remove_files(work_dir: Path) -> int:
    """What agents make in their work_dir, and the folder if nothing else is in it; how much else is.

    An operator may have named a folder that others use, too.
    """
    for name in OWN_FILES:
        path = work_dir / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    try:
        left = len(list(work_dir.iterdir()))
    except FileNotFoundError:
        return 0
    if not left:
        work_dir.rmdir()
    return left


def _drain(farewell: Farewell, options: AgentOptions, master: MasterCalls, say: Say) -> None:
    """Until nothing runs here."""
    running = master.standing().containers
    if running:
        at = datetime.now(UTC) + farewell.grace
        say(f"{counted(running, 'task')} asked to leave until {at.astimezone():%H:%M:%S}")
        if (options.work_dir / LOCK).exists():
            with suppress(Conflict):  # it goes sooner already
                announce(options.work_dir, Leaving(at=at, reason="the agent leaves the cluster"))
        running = _fewer(master, time.monotonic() + farewell.grace.total_seconds())
    if running and farewell.force:
        say(f"Killing {counted(running, 'task')}")
        master.leave(stop=True)
        running = _fewer(master, time.monotonic() + STOP_S)
    if running:
        raise Conflict(
            f"agent '{options.agent_id}' still runs {counted(running, 'task')}: wait with a longer --grace, "
            "or kill with --force"
        )


def _fewer(master: MasterCalls, deadline: float) -> int:
    """How many tasks run once none does, or time is over."""
    while True:
        try:
            running = master.standing().containers
        except MasterRefused:  # it was left already
            return 0
        if not running or time.monotonic() > deadline:
            return running
        time.sleep(POLL_S)


def _await_stop(work_dir: Path) -> None:
    """Raises Conflict if an agent that is no service of ours still runs."""
    deadline = time.monotonic() + 15.0
    while is_running(work_dir):
        if time.monotonic() > deadline:
            raise Conflict(f"an agent still runs in {work_dir}: stop it, and call again")
        time.sleep(POLL_S)


def _refuse_leftovers(work_dir: Path) -> None:
    """Supervisors of tasks outlive their agent: their folders must not be taken from under them."""
    if not work_dir.exists():
        return
    dirs = ContainerDirs(work_dir)
    with dirs.locked():
        known = [record.container_id for record in dirs.load()]
        left = [id_ for id_ in known if _runs(dirs.of(id_))]
    if left:
        raise Conflict(
            f"{work_dir} still holds {counted(len(left), 'task')} ({', '.join(left[:3])}): start the agent again, "
            "and leave with --force"
        )


def _runs(place: ContainerDir) -> bool:
    """Whether its supervisor is alive."""
    who = place.read_json("supervisor.json")
    if who is None:
        return False
    pid, started = int(str(who["pid"])), int(str(who["start_time"]))
    return process_runs(ProcessName(pid, started, str(who["boot_id"])))
