"""No job is gone but by an answer that would have shown it: for every batch system, over every way to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.batch.base import BatchSystem
from provisioner.batch.commands import COMMAND_LIMIT_S, Commands, FinishedCommand
from provisioner.batch.pbs.system import PbsSystem
from provisioner.batch.shared_site import SharedSite
from provisioner.batch.slurm.pyslurm.process import PyslurmProcess
from provisioner.batch.slurm.pyslurm.system import PyslurmSystem
from provisioner.batch.slurm.rest.client import RestClient
from provisioner.batch.slurm.rest.system import RestSystem
from provisioner.batch.slurm.system import SlurmSystem
from tests.fakes.slurm_commands import FakeSlurm, Job
from windlass.base.clock import SystemClock
from windlass.base.errors import BatchSystemError

NAMES = ("wl-1", "wl-2")
SAID = ("", "error: Unable to contact slurm controller", "qstat: Unknown Job Id 99.s\n", "killed\n")
Spoil: TypeAlias = Callable[[FinishedCommand], FinishedCommand]


def spoils() -> st.SearchStrategy[Spoil]:
    """What may become of the answer of a command: all of it, its beginning, nothing, or an error."""
    return st.one_of(
        st.just(lambda done: done),
        st.integers(0, 2000).map(
            lambda n: lambda done: FinishedCommand(done.code, done.out[:n], done.err)
        ),
        st.sampled_from(SAID).map(lambda said: lambda _: FinishedCommand(0, "", said)),
        st.tuples(st.sampled_from((-9, 1, 2, 8, 35, 153, 255)), st.sampled_from(SAID)).map(
            lambda it: lambda done: FinishedCommand(it[0], done.out, it[1])
        ),
    )


class Spoiled:
    """Implements `Commands`: of a site on which both jobs live."""

    def __init__(self, site: Commands, how: Iterator[Spoil]) -> None:
        self._site = site
        self._how = how

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        done = await self._site.run(words, stdin=stdin, limit_s=limit_s)
        return done if words[0] == "id" else next(self._how)(done)


class FakePbs:
    """Its JSON has the first of several jobs, or all."""

    def __init__(self, shown: int) -> None:
        self._shown = shown

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        if words[0] == "id":
            return FinishedCommand(0, "alice\n")
        if words[0] == "qselect":
            return FinishedCommand(0, f"{NAMES.index(words[-1]) + 1}.s\n")
        jobs = {
            f"{number}.s": {"Job_Name": name, "Job_Owner": "alice@h", "job_state": "Q"}
            for number, name in enumerate(NAMES, 1)
        }
        asked = [word for word in words if word.endswith(".s")] or list(jobs)
        if "json" in words:
            shown = asked if "1.s" not in words else asked[: self._shown]
            return FinishedCommand(0, json.dumps({"Jobs": {id_: jobs[id_] for id_ in shown}}))
        lines = [
            f"Job Id: {id_}\n" + "".join(f"    {key} = {text}\n" for key, text in jobs[id_].items())
            for id_ in asked
        ]
        return FinishedCommand(0, "\n".join(lines))


def fake_slurm() -> FakeSlurm:
    jobs = {number: Job(number, name, 1, 60.0) for number, name in enumerate(NAMES, 1)}
    return FakeSlurm(jobs=jobs, holds_back=True)


class Named:
    """Its user, beside a site's commands."""

    def __init__(self, site: Commands) -> None:
        self._site = site

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        if words[0] == "id":
            return FinishedCommand(0, "alice\n")
        return await self._site.run(words, stdin=stdin, limit_s=limit_s)


def rest(how: Iterator[Spoil]) -> RestSystem:
    """The texts of its answers are spoiled as those of commands; an error of a command is one of the server."""
    jobs = [
        {"job_id": number, "name": name, "job_state": "PENDING", "user_name": "alice"}
        for number, name in enumerate(NAMES, 1)
    ]

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/openapi/v3":
            return httpx2.Response(200, text='"/slurm/v0.0.40/jobs"')
        last = request.url.path.rpartition("/")[2]
        one = [job for job in jobs if last in ("jobs", str(job["job_id"]))]
        done = next(how)(FinishedCommand(0, json.dumps({"jobs": one, "errors": []})))
        return httpx2.Response(500 if done.code else 200, text=done.out or done.err)

    client = RestClient("here", lambda: httpx2.MockTransport(handle))
    return RestSystem(client, Named(fake_slurm()), "alice")


def pyslurm(how: Iterator[Spoil]) -> PyslurmSystem:
    """What it lists is left to the commands here: how jobs are looked up alone is theirs in any case."""
    commands = Spoiled(Named(fake_slurm()), how)
    process = PyslurmProcess({})
    return PyslurmSystem(SlurmSystem(commands), commands, process, now=lambda: -1.0e9)


SYSTEMS: dict[str, Callable[[Iterator[Spoil]], BatchSystem]] = {
    "slurm": lambda how: SlurmSystem(Spoiled(Named(fake_slurm()), how)),
    "slurm shared": lambda how: SharedSite(
        SlurmSystem(Spoiled(Named(fake_slurm()), how)), ("wl-",), SystemClock()
    ).part(),
    "slurmrestd": rest,
    "pyslurm": pyslurm,
    "pbs": lambda how: PbsSystem(Spoiled(FakePbs(2), how)),
    "newer pbs": lambda how: PbsSystem(Spoiled(FakePbs(1), how)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
@given(how=st.lists(spoils(), max_size=12))
def test_a_job_that_lives_is_never_told_to_be_gone(name: str, how: list[Spoil]) -> None:
    """The look that decides is at one job alone; it shows it, or it is no answer."""

    async def main() -> None:
        system = SYSTEMS[name](iter([*how, *[lambda done: done] * 100]))
        for _ in range(3):
            try:
                found = await system.poll(NAMES)
            except BatchSystemError:
                found = {}
            for number, job in enumerate(NAMES, 1):
                if job in found:
                    continue
                try:
                    told = await system.look_up(f"{number}.s" if "pbs" in name else str(number))
                except BatchSystemError:
                    continue
                assert told is not None, job
                assert told.cause is None

    asyncio.run(main())


@pytest.mark.parametrize("name", SYSTEMS)
def test_an_answer_in_whole_shows_every_job(name: str) -> None:
    """In the first look by their names, and in the next by their ids."""

    async def main() -> None:
        system = SYSTEMS[name](iter([lambda done: done] * 100))
        for _ in range(2):
            assert set(await system.poll(NAMES)) == set(NAMES)

    asyncio.run(main())
