"""`windlass hpc up`: from nothing to a master that answers."""

from __future__ import annotations

import asyncio
import os
import pwd
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from master.hpc.as_job import (
    MasterJobSpec,
    end_all,
    folder_of,
    legs,
    new_leg,
    read_leg,
    submit,
    write_leg,
)
from master.hpc.leg import CLUSTER
from master.hpc.place import MasterFolder, MasterRecord, find_place
from master.hpc.plan import SitePlan, plan_of
from master.hpc.private import (
    Say,
    Up,
    answers,
    command,
    fingerprint_of_master,
    id_of,
    require_here,
    start,
    write_config,
)
from master.hpc.remote import LOGIN_VARIABLE
from master.hpc.site.facts import Facts
from master.hpc.site.findings import findings
from master.hpc.site.gather import GivenPlaces, gather
from windlass.base.checks import Check
from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.ssh_forward import ssh_line as forward
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.services import MASTER, Condition, LocalServices

START_LIMIT_S = 300.0
"""How long to wait for a master that is a batch job."""
LOOK_S = 1.0

Report = Callable[[list[Check]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    where: GivenPlaces
    account: str = ""
    overwrite: bool = False
    restart: bool = False
    as_job: bool = False
    queue: str = ""
    """Of the master that is a job; empty: one without GPUs."""
    walltime_s: float | None = None
    """Of each of its legs."""


def up(wishes: UpOptions, *, say: Say, report: Report) -> Iterator[str]:
    """What to tell the user. `report` ends it where a check failed."""
    say("Looking at the site")
    known = find_place(wishes.where.shared)
    where = wishes.where
    if known is not None and where.shared is None:
        where = replace(where, shared=known[0].path)
    facts = asyncio.run(gather(where))
    plan = plan_of(facts, uid=os.geteuid(), account=wishes.account, path=wishes.where.path)
    if known is not None:
        require_same_kind(known[1], as_job=wishes.as_job)
        require_here(known[1], facts.host, _option(wishes.where))
    report(findings(facts, plan, as_job=wishes.as_job))
    if wishes.as_job:
        return _as_job(facts, plan, wishes, say)
    if plan.shared is None or plan.data is None:
        raise InvalidArgument("there is no folder to use")  # `report` has ended it before
    place = MasterFolder(Path(plan.shared.path))
    folder = ClusterFolder(known[1].folder if known is not None else Path(plan.data.path))
    return told(place, _started(place, folder, facts, plan, wishes, say))


def _as_job(facts: Facts, plan: SitePlan, wishes: UpOptions, say: Say) -> Iterator[str]:
    if plan.shared is None:
        raise InvalidArgument("there is no folder to use")  # `report` has ended it before
    place = MasterFolder(Path(plan.shared.path))
    leg = new_leg(plan, queue=wishes.queue, walltime_s=wishes.walltime_s)
    place.make()
    wrote = write_config(place, plan, overwrite=wishes.overwrite)
    known = place.running()
    before = None if known is None else _leg_before(place, known, leg)
    if before is not None and asyncio.run(legs(before)):
        if not wishes.restart:
            write_leg(place, before)  # it may have been damaged
            return iter([f"Your master is a batch job already: {command('status')}"])
        asyncio.run(end_all(before))
    first = not (folder_of(place) / CLUSTER / "master" / "secret").exists()
    write_leg(place, leg)
    new = MasterRecord(
        host="", folder=folder_of(place) / CLUSTER, url="", cluster_id="", system=plan.system
    )
    place.note((known or new).model_copy(update={"job": leg.name, "url": "", "is_up": True}))
    job_id = asyncio.run(submit(place, leg, 1))
    say(f"Submitted job {job_id} to {leg.queue}, waiting for it to start")
    running = _await_start(place, leg)
    if running is None:
        return iter([f"Job {job_id} has not started the master yet: {command('status')}"])
    password = ClusterFolder(running.folder).password_file if first else None
    done = Up(running=running, fingerprint="", wrote_yaml=wrote, first_password=password)
    return told(place, done)


def _leg_before(place: MasterFolder, known: MasterRecord, new: MasterJobSpec) -> MasterJobSpec:
    """How its legs are submitted; where that cannot be read, as one would be now: their names are in master.json."""
    try:
        return read_leg(place)
    except Conflict:
        return new.model_copy(update={"name": known.job, "path": known.path or new.path})


def _await_start(place: MasterFolder, leg: MasterJobSpec) -> MasterRecord | None:
    """None: it waits in the queue, or its job has ended."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        running = place.running()
        if running is not None and running.job == leg.name and running.url and answers(running):
            return running
        if not asyncio.run(legs(leg)):
            return None
        time.sleep(LOOK_S)
    return None


def require_same_kind(known: MasterRecord, *, as_job: bool) -> None:
    """Raises Conflict: the data would be another one's."""
    if as_job and not known.job:
        raise Conflict(
            f"your master keeps its data on {known.host}, in {known.folder}: as a job it would begin anew; "
            "do so in another folder, with --dir"
        )
    if known.job and not as_job:
        raise Conflict("your master is a batch job: add --as-job, or begin another one with --dir")


def _started(
    place: MasterFolder,
    folder: ClusterFolder,
    facts: Facts,
    plan: SitePlan,
    wishes: UpOptions,
    say: Say,
) -> Up:
    place.make()
    wrote = write_config(place, plan, overwrite=wishes.overwrite)
    runs = LocalServices(folder).of(MASTER).condition is Condition.RUNNING
    known = place.running()
    if runs and known is not None and not wishes.restart:
        return Up(running=known, fingerprint="", wrote_yaml=wrote, was_running=True)
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    started, first = start(place, folder, restart=wishes.restart, say=say)
    running = MasterRecord(
        host=facts.host,
        folder=folder.path,
        url=started.options.url,
        cluster_id=id_of(folder, started.options),
        system=plan.system,
        path=plan.path,
    )
    place.note(running)
    return Up(
        running=running,
        fingerprint=fingerprint_of_master(folder, started.options),
        wrote_yaml=wrote,
        first_password=folder.password_file if first else None,
    )


def told(place: MasterFolder, done: Up) -> Iterator[str]:
    running = done.running
    verb = "already runs" if done.was_running else "is up"
    yield f"The master {verb} at {running.url}, on {running.host}. Its data: {running.folder}"
    yield f"Configuration{' (written now)' if done.wrote_yaml else ''}: {place.master_yaml}"
    yield f"From your computer: {ssh_line(running)}"
    at = urlsplit(running.url)
    yield f"  then, in a browser or for det there: https://localhost:{at.port}"
    if done.fingerprint:
        yield f"  Fingerprint of its certificate: {done.fingerprint}"
    if done.first_password is not None and done.first_password.exists():
        password = done.first_password.read_text().strip()
        yield f"First password of admin and determined, shown once: {password}"
    yield f"Here you are logged in: export DET_MASTER={running.url}; det e create config.yaml ."


def ssh_line(running: MasterRecord) -> str:
    """For the user's own computer."""
    at = urlsplit(running.url)
    login = os.environ.get(LOGIN_VARIABLE, "")
    host, port = at.hostname or "", at.port or 443
    return forward(host, port, user=user_name(), host=running.host, login=login)


def user_name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _option(where: GivenPlaces) -> str:
    return "" if where.shared is None else f" --dir {shlex.quote(str(where.shared))}"
