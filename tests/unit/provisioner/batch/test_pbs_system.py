"""PBS by its commands: which are called, and what is concluded, from recorded answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from provisioner.batch.base import (
    EndCause,
    JobPhase,
    JobRefused,
    JobSpec,
    NoAnswer,
)
from provisioner.batch.commands import COMMAND_LIMIT_S, FinishedCommand
from provisioner.batch.pbs.system import PbsSystem
from windlass.base.errors import BatchSystemError

FOLDER = Path(__file__).parents[3] / "transcripts" / "pbs"
JOB = JobSpec(
    name="wl-1", queue="", nodes=1, gpus_per_node=0, directory=Path("/d"), script="#!/bin/sh\n"
)


def recorded(case: str, command: str, number: int = 0) -> FinishedCommand:
    steps: list[dict[str, Any]] = json.loads((FOLDER / f"{case}.json").read_text())["steps"]
    step = [s for s in steps if s.get("command") == command][number]
    return FinishedCommand(step["exit_code"], step["stdout"], step["stderr"])


class Answers:
    """Implements `Commands`: answers of a table, and nothing else."""

    def __init__(
        self, **answers: FinishedCommand | Callable[[Sequence[str]], FinishedCommand]
    ) -> None:
        self._answers = {"id": FinishedCommand(0, "alice\n"), **answers}
        self.calls: list[str] = []

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        words = words[2:] if words[0] == "env" else words
        if words[0] != "id":
            self.calls.append(" ".join(words))
        answer = self._answers[words[0]]
        return answer(words) if callable(answer) else answer


def listing(**jobs: dict[str, Any]) -> FinishedCommand:
    return FinishedCommand(
        0, json.dumps({"Jobs": {f"{id_[1:]}.s": one for id_, one in jobs.items()}})
    )


def running(name: str, owner: str = "alice@host") -> dict[str, Any]:
    return {
        "Job_Name": name,
        "Job_Owner": owner,
        "job_state": "R",
        "substate": 42,
        "exec_host": "pn1/0",
    }


def test_the_site() -> None:
    answers = Answers(
        qstat=lambda words: (
            recorded("version", "qstat -B -f -F json")
            if "-B" in words
            else recorded("queues", "qstat -Q -f -F json")
        ),
        pbsnodes=recorded("pbsnodes", "pbsnodes -av -F json"),
    )
    site = asyncio.run(PbsSystem(answers).site())
    assert site.version == "23.06.06"
    assert [name for name, queue in site.queues.items() if queue.is_default] == ["workq"]
    assert site.queues["workq"].idle_nodes == 2


def test_a_submission_says_the_id() -> None:
    system = PbsSystem(Answers(qsub=FinishedCommand(0, "0.pbssrv\n")))
    assert asyncio.run(system.submit(JOB)) == "0.pbssrv"


def test_a_submission_that_was_not_answered_is_no_refusal() -> None:
    for done in (recorded("server-down", "qsub -- /bin/true"), FinishedCommand(0, "")):
        with pytest.raises(NoAnswer):
            asyncio.run(PbsSystem(Answers(qsub=done)).submit(JOB))


def test_a_refusal_says_whether_it_passes() -> None:
    done = recorded("submit-errors", "qsub -q lim -- /bin/sleep 8", 2)
    with pytest.raises(JobRefused, match="per-user limit") as refused:
        asyncio.run(PbsSystem(Answers(qsub=done)).submit(JOB))
    assert refused.value.passing


def test_a_few_known_jobs_are_asked_for_by_id() -> None:
    async def main() -> None:
        answers = Answers(qsub=FinishedCommand(0, "5.s\n"), qstat=listing(_5=running("wl-1")))
        system = PbsSystem(answers)
        await system.submit(JOB)
        found = await system.poll(["wl-1"])
        assert found["wl-1"].phase is JobPhase.RUNNING
        assert answers.calls[1:] == ["qstat -x -f -F json 5.s"]

    asyncio.run(main())


def test_many_jobs_are_one_listing() -> None:
    """Asked for by id they would take the server a second each hundred and seventy."""

    async def main() -> None:
        names = [f"wl-{n}" for n in range(300)]
        others = {f"_{n + 1000}": running(f"foreign-{n}") for n in range(50)}
        jobs = {f"_{n}": running(name) for n, name in enumerate(names)}
        answers = Answers(qstat=listing(**jobs, **others))
        system = PbsSystem(answers)
        for _ in range(3):
            assert set(await system.poll(names)) == set(names)
        assert answers.calls == ["qstat -f -F json"] * 3

    asyncio.run(main())


def test_a_job_that_ended_unanswered_is_found_by_its_name() -> None:
    """Nothing is submitted twice: it is looked for in history, too."""

    async def main() -> None:
        ended = running("wl-1") | {"job_state": "F", "substate": 92, "Exit_status": 0}
        answers = Answers(
            qstat=lambda words: listing(_7=ended) if "7.s" in words else listing(),
            qselect=FinishedCommand(0, "7.s\n"),
        )
        found = await PbsSystem(answers).poll(["wl-1"])
        assert (found["wl-1"].job_id, found["wl-1"].cause) == ("7.s", EndCause.OK)
        assert answers.calls[1] == "qselect -x -N wl-1"

    asyncio.run(main())


def test_a_job_of_somebody_else_with_its_name_does_not_hide_one_that_was_not_answered() -> None:
    """Names are shown to all users of a site."""

    async def main() -> None:
        ended = running("wl-1") | {"job_state": "F", "substate": 92, "Exit_status": 0}
        both = {"7.s": ended, "8.s": running("wl-1", "mallory@host")}

        def qstat(words: Sequence[str]) -> FinishedCommand:
            return listing(**{f"_{id_[0]}": one for id_, one in both.items() if id_ in words})

        answers = Answers(qstat=qstat, qselect=FinishedCommand(0, "7.s\n8.s\n"))
        found = await PbsSystem(answers).poll(["wl-1"])
        assert found["wl-1"].job_id == "7.s"

    asyncio.run(main())


def test_without_history_a_job_that_is_not_listed_is_unknown_and_a_running_one_is_found() -> None:
    """`qstat -x` says nothing there, not even of what runs."""

    async def main() -> None:
        def qstat(words: Sequence[str]) -> FinishedCommand:
            if "-x" in words:
                return recorded("history-off", "qstat -x -f -F json 360.pbssrv 361.pbssrv")
            return listing(_5=running("wl-1"))

        answers = Answers(
            qsub=FinishedCommand(0, "5.s\n"), qstat=qstat, qselect=FinishedCommand(0, "")
        )
        system = PbsSystem(answers)
        await system.submit(JOB)
        assert (await system.poll(["wl-1"]))["wl-1"].phase is JobPhase.RUNNING
        assert list(await system.poll(["wl-1", "wl-2"])) == ["wl-1"]
        assert [c for c in answers.calls if "-x" in c] == ["qstat -x -f -F json 5.s"]

    asyncio.run(main())


def test_a_job_of_somebody_else_with_our_name_is_not_ours() -> None:
    async def main() -> None:
        theirs = running("wl-1", "mallory@host")
        system = PbsSystem(Answers(qstat=listing(_5=running("wl-1"), _6=theirs)))
        assert (await system.poll(["wl-1"]))["wl-1"].job_id == "5.s"
        assert [job.job_id for job in await system.named_like("wl-")] == ["5.s"]

    asyncio.run(main())


def test_a_login_node_that_does_not_know_its_user_ends_nothing() -> None:
    """For it cannot be told whose the jobs are: `id` fails while the site's directory of users is down."""

    async def main() -> None:
        users = [
            FinishedCommand(1, "", "id: cannot find name for user ID 1000\n"),
            FinishedCommand(0, "alice\n"),
        ]
        jobs = listing(_5=running("wl-1"))
        system = PbsSystem(Answers(qstat=jobs, id=lambda words: users.pop(0)))
        with pytest.raises(NoAnswer, match="cannot find name for user ID 1000"):
            await system.named_like("wl-")
        assert [job.job_id for job in await system.named_like("wl-")] == ["5.s"]

    asyncio.run(main())


def test_broken_json_is_read_from_the_text() -> None:
    """Of releases before 23, which print some values of environments as they are."""

    async def main() -> None:
        text = "Job Id: 5.s\n    Job_Name = wl-1\n    Job_Owner = alice@host\n    job_state = R\n    substate = 42\n"
        answers = Answers(
            qsub=FinishedCommand(0, "5.s\n"),
            qstat=lambda words: FinishedCommand(
                0, '{"Jobs": {"5.s": {"X": 005}}}' if "json" in words else text
            ),
        )
        system = PbsSystem(answers)
        await system.submit(JOB)
        assert (await system.poll(["wl-1"]))["wl-1"].phase is JobPhase.RUNNING
        assert answers.calls[-1] == "qstat -x -f 5.s"

    asyncio.run(main())


def test_a_server_that_is_down_ends_nothing() -> None:
    """It prints a document without jobs, and exits with 255."""
    answers = Answers(
        qstat=recorded("server-down", "qstat -f -F json"),
        qselect=recorded("server-down", "qselect"),
        qdel=recorded("server-down", "qdel 1"),
    )
    system = PbsSystem(answers)
    for call in (
        system.poll(["wl-1"]),
        system.look_up("5.s"),
        system.cancel(["1"]),
        system.named_like("w"),
    ):
        with pytest.raises(NoAnswer):
            asyncio.run(call)  # type: ignore[arg-type]


def test_what_is_over_needs_no_cancel() -> None:
    for command in ("qdel 99999", "qdel 20.pbssrv"):
        done = recorded("delete", command, 1 if "20" in command else 0)
        asyncio.run(PbsSystem(Answers(qdel=done)).cancel(["1"]))
    with pytest.raises(BatchSystemError, match="Unauthorized"):
        asyncio.run(
            PbsSystem(Answers(qdel=recorded("delete", "qdel 20.pbssrv"))).cancel(["20.pbssrv"])
        )


def test_a_job_that_no_node_can_start_is_over_and_taken_from_the_queue() -> None:
    """PBS tries 21 times, for one because the node does not see its directory, and holds it for good."""
    held = {
        "Job_Name": "wl-1",
        "job_state": "H",
        "substate": 20,
        "Hold_Types": "s",
        "comment": "job held, too many failed attempts to run",
        "Exit_status": -3,
    }
    answers = Answers(qstat=listing(_5=held), qdel=FinishedCommand(0))
    job = asyncio.run(PbsSystem(answers).look_up("5.s"))
    assert job is not None
    assert job.cause is EndCause.LAUNCH_FAILED
    assert answers.calls[-1] == "qdel 5.s"
