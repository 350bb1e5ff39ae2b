"""The log of a task tells of its batch job: its number, each new reason why it waits, where it runs, why it failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from master.core.reasons import ReasonKind
from provisioner.batch.base import EndCause, JobRefused
from tests.fakes.agents_world import agents_world, allocation
from tests.fakes.batch_world import BatchWorld, slurm_pool
from tests.fakes.virtual_time import run

ID = "task-1.1"
SUBMITTED = ("INFO", "Slurm job 1 in partition gpu was submitted")
PENDING = (
    "INFO",
    "Slurm job 1 in partition gpu is pending: Resources (no nodes of that shape are free)",
)
Play = Callable[[Callable[[BatchWorld], Awaitable[None]]], list[tuple[str, str]]]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def play(scenario: Callable[[BatchWorld], Awaitable[None]]) -> list[tuple[str, str]]:
        said: list[tuple[str, str, str]] = []

        async def main() -> None:
            async with agents_world(starts=False) as world:
                batch = BatchWorld(world, tmp_path / "jobs", slurm_pool())
                await batch.start()
                batch.site.holds_back = True
                await world.backend.request(allocation(1, slots=4))
                await world.settle(60)
                await scenario(batch)
                said.extend(batch.said)

        run(main(), limit_s=24 * 3600)
        assert {task for task, _, _ in said} == {"task-1"}
        return [(level, text) for _, level, text in said]

    return play


def test_what_becomes_of_a_job_is_said_once(play: Play) -> None:
    """Also by a master that came after the one that submitted it."""

    async def scenario(batch: BatchWorld) -> None:
        await batch.restart()
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(60)
        batch.site.holds_back = False
        await batch.world.master.granted(ID)
        await batch.world.settle(60)

    running = ("INFO", "Slurm job 1 in partition gpu has n1")
    assert play(scenario) == [SUBMITTED, PENDING, running]


def test_the_end_of_the_log_of_a_job_that_did_not_start_is_there(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        (first,) = batch.site.jobs.values()
        (first.spec.directory / "batch.log").write_text(
            "modules are loaded\n\nsrun: error: \x1b[31mno such node\n"
        )
        await batch.site.end(first, EndCause.LAUNCH_FAILED)
        await batch.world.settle(60)

    said = play(scenario)
    assert said[:3] == [
        SUBMITTED,
        PENDING,
        ("ERROR", "Slurm job 1 in partition gpu said: modules are loaded"),
    ]
    (level, last), (next_level, why), following = said[3:6]
    assert (level, next_level) == ("ERROR", "WARNING")
    assert last.startswith("Slurm job 1 in partition gpu said: srun: error:")
    assert why.startswith("job 1 could not be started by the site: srun: error:")
    assert "\x1b" not in last + why
    assert following == ("INFO", "Slurm job 2 in partition gpu was submitted")


def test_a_job_that_somebody_cancelled_says_no_more_than_that(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        (first,) = batch.site.jobs.values()
        (first.spec.directory / "batch.log").write_text("slurmstepd: error: CANCELLED\n")
        await batch.site.end(first, EndCause.CANCELLED)
        await batch.world.settle(60)

    assert play(scenario) == [SUBMITTED, PENDING, ("WARNING", "job 1 was cancelled at the site")]


@pytest.mark.slow
def test_a_refusal_is_said_once_however_often_it_is_tried_again(play: Play) -> None:
    why = JobRefused("Invalid qos specification", kind=ReasonKind.NO_SUCH_AGENT, passing=False)

    async def scenario(batch: BatchWorld) -> None:
        batch.site.refusal = why
        (first,) = batch.site.jobs.values()
        await batch.site.end(first, EndCause.LAUNCH_FAILED)
        await batch.world.settle(3600)
        assert batch.site.refused > 2

    assert play(scenario)[-1] == ("WARNING", "Invalid qos specification")


def test_reasons_that_take_turns_and_count_are_said_once_each(play: Play) -> None:
    """A job may wait for days, and is looked at every ten seconds."""
    reasons = ["Priority", "Resources", "Not Running: 3 jobs ahead", "Not Running: 2 jobs ahead"]

    async def scenario(batch: BatchWorld) -> None:
        for reason in reasons * 3:
            batch.site.reason = reason
            await batch.world.settle(30)

    texts = [text for _, text in play(scenario)]
    assert len(texts) == 4
    assert [" pending: Priority" in texts[2], "3 jobs ahead" in texts[3]] == [True, True]
