"""pyslurm in a process of its own, as it was recorded to behave."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from master.checks.site import pyslurm_check
from provisioner.batch.base import JobPhase, NoAnswer
from provisioner.batch.commands import FinishedCommand
from provisioner.batch.slurm.pyslurm.process import PyslurmProcess
from provisioner.batch.slurm.pyslurm.system import MOST_ENDS, PyslurmSystem
from provisioner.batch.slurm.system import SlurmSystem
from windlass.base.checks import CheckStatus

STANDIN = Path(__file__).parents[3] / "fakes" / "pyslurm_standin"
LINE = "7|RUNNING|100|400|n1|1|None|wl-by-commands\n"


def job(**settings: Any) -> dict[str, Any]:
    """As 25.11.2 had it."""
    given = {
        "id": 49,
        "name": "wl-gang",
        "state": "RUNNING",
        "state_reason": "None",
        "user_name": "alice",
        "account": "research",
        "partition": "gpu",
        "allocated_nodes": "n1",
        "num_nodes": 1,
        "submit_time": 1795214003,
        "start_time": 1795214005,
        "end_time": 1795214305,
        "array_id": None,
        "array_task_id": None,
    }
    return given | settings


class Here:
    """Commands of a site of 25.11.7, as alice."""

    def __init__(self, version: str = "slurm 25.11.7") -> None:
        self.lines: list[Sequence[str]] = []
        self.version = version

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = 0
    ) -> FinishedCommand:
        self.lines.append(words)
        if words[0] == "sinfo":
            return FinishedCommand(0, f"{self.version}\n")
        return FinishedCommand(0, "alice\n") if words[0] == "id" else FinishedCommand(0, LINE)


def environ(how: str = "", *jobs: dict[str, Any], **others: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(STANDIN),
        "STANDIN": how,
        "STANDIN_JOBS": json.dumps(jobs),
        **others,
    }


def run_with(
    process: PyslurmProcess,
    main: Callable[[PyslurmSystem], Awaitable[None]],
    here: Here | None = None,
    now: Callable[[], float] = lambda: 0.0,
) -> None:
    async def whole() -> None:
        commands = here or Here()
        system = PyslurmSystem(SlurmSystem(commands), commands, process, now=now)
        try:
            await main(system)
        finally:
            system.close()

    asyncio.run(whole())


def test_jobs_are_listed_by_it_and_all_else_is_done_by_commands() -> None:
    here = Here()
    other = job(id=50, user_name="bob", state="PENDING", state_reason="Priority", name="wl-gang")
    over = job(id=51, state="COMPLETED+COMPLETING", name="wl-over")
    task = job(id=53, array_id=52, array_task_id=4, partition="short")

    async def main(system: PyslurmSystem) -> None:
        found = await system.poll(["wl-gang", "wl-over", "wl-none"])
        assert {name: (one.job_id, one.phase) for name, one in found.items()} == {
            "wl-gang": ("53", JobPhase.RUNNING),
            "wl-over": ("51", JobPhase.ENDING),
        }
        (waiting,) = [one for one in await system.in_queue("gpu") if one.waits]
        assert (waiting.user, waiting.submitted) == ("bob", 1795214003.0)
        assert [one.job_id for one in await system.in_queue("short")] == ["52_4"]
        assert len(await system.named_like("wl-o")) == 1
        assert not any(words[0] == "squeue" for words in here.lines)
        await system.cancel(["49"])
        assert here.lines[-1] == ["scancel", "49"]

    run_with(PyslurmProcess(environ("", job(), other, over, task)), main, here)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"how": "no configuration"}, "its import ended: .*Unable to process configuration file"),
        ({"how": "import stands still"}, "its import ended: it stood still for 0.5 s"),
        ({"how": "other names"}, "another pyslurm than the master knows"),
        ({"PYTHONPATH": "/nowhere"}, "cannot be imported: No module named 'pyslurm'"),
        (
            {"STANDIN_VERSION": "22.5.3"},
            r"22.5.3 is not for Slurm 25.11.7: install pyslurm==25.11.\*",
        ),
    ],
)
def test_where_it_cannot_be_used_commands_are_with_one_word_why(
    settings: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    slow = settings.get("how") == "import stands still"
    process = PyslurmProcess(environ(**settings), import_limit_s=0.5 if slow else 60)

    async def main(system: PyslurmSystem) -> None:
        for _ in range(2):
            assert list(await system.poll(["wl-by-commands"])) == ["wl-by-commands"]

    run_with(process, main)
    (record,) = [r for r in caplog.records if "pyslurm is not used" in r.getMessage()]
    assert record.getMessage().startswith("pyslurm is not used, commands of Slurm are: ")
    assert re.search(said, record.getMessage())


def test_releases_are_compared_as_numbers() -> None:
    async def main(system: PyslurmSystem) -> None:
        assert "wl-gang" in await system.poll(["wl-gang"])

    process = PyslurmProcess(environ("", job(), STANDIN_VERSION="22.5.3"))
    run_with(process, main, Here("slurm 22.05.8"))


def test_a_controller_that_is_down_is_no_answer_and_no_reason_to_give_it_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(system: PyslurmSystem) -> None:
        with pytest.raises(NoAnswer, match="pyslurm: Unable to contact slurm controller"):
            await system.poll(["wl-gang"])

    run_with(PyslurmProcess(environ("controller down")), main)
    assert not caplog.records


@pytest.mark.parametrize(
    ("how", "said"), [("stands still", "stood still for 0.5 s"), ("ends", "ended")]
)
def test_a_process_that_ends_or_stands_still_is_replaced_and_given_up_at_last(
    how: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    process = PyslurmProcess(environ(how), limit_s=0.5 if how == "stands still" else 60)
    at = [0.0]

    async def main(system: PyslurmSystem) -> None:
        for _ in range(MOST_ENDS):
            with pytest.raises(NoAnswer, match=said):
                await system.poll(["wl-gang"])
        assert list(await system.poll(["wl-by-commands"])) == ["wl-by-commands"]
        at[0] = 4000.0
        with pytest.raises(NoAnswer, match=said):
            await system.poll(["wl-gang"])

    run_with(process, main, now=lambda: at[0])
    assert len([r for r in caplog.records if "pyslurm is not used" in r.getMessage()]) == 1


@pytest.mark.parametrize(
    ("release", "status", "found"),
    [
        ("slurm 25.11.7", CheckStatus.OK, "25.11.2 fits the site's Slurm"),
        ("slurm 24.05.4", CheckStatus.WARNING, "install pyslurm==24.5.*"),
    ],
)
def test_doctor_says_whether_it_fits_the_site(
    release: str, status: CheckStatus, found: str
) -> None:
    async def main(system: PyslurmSystem) -> None:
        check = await pyslurm_check(system)
        assert (check.name, check.status) == ("pyslurm", status)
        assert found in check.found

    run_with(PyslurmProcess(environ()), main, Here(release))
