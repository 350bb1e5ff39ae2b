"""How far a pilot is until its agents have joined: what its site, its nodes and its directory tell."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.batch.base import JobPhase
from provisioner.batch.stages import JOIN_S, begun
from tests.contract.providers.pilots import FakePilotCase, pilots

WHAT = "Slurm job 7"
SINCE = 1_700_000_000.0


@pytest.fixture
async def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakePilotCase]:
    async with pilots(tmp_path) as one:
        monkeypatch.setattr(one.provider._stages, "_monotonic", lambda: one.now)
        yield one


async def stages(case: FakePilotCase) -> set[str]:
    """Of all machines: those of one job are told the same."""
    return {machine.stage for machine in (await case.provider.list()).instances}


def text(phase: JobPhase, said: str = "") -> str:
    nodes = ("n1", "n2")
    return begun(WHAT, phase, nodes=nodes, since=SINCE, joined=1, agents=2, said=said)


def test_words_for_each_phase() -> None:
    assert text(JobPhase.STARTING) == f"{WHAT} starts on n1, n2: the site prepares its nodes"
    assert text(JobPhase.PAUSED) == f"{WHAT} on n1, n2 is suspended by the site"
    assert text(JobPhase.ENDING) == f"{WHAT} on n1, n2 is being ended by the site"
    runs = f"{WHAT} runs on n1, n2 since 2023-11-14 22:13:20 UTC: 1 of 2 agents have joined"
    assert text(JobPhase.RUNNING) == runs
    assert text(JobPhase.RUNNING, "1 of 2 nodes have reported") == (
        f"{runs}; 1 of 2 nodes have reported"
    )


async def test_nodes_are_asked_once_a_job_has_run_for_a_while(case: FakePilotCase) -> None:
    (first, _) = (await case.launch(case.intent(2))).instance_ids
    tag = first.rpartition("-")[0]
    (told,) = await stages(case)
    assert told.startswith("Slurm job 1 runs on n1, n2 since ")
    assert told.endswith("0 of 2 agents have joined")

    folder = case.folder / "jobs" / tag
    case.now += JOIN_S + 1
    (told,) = await stages(case)
    assert told.endswith("have joined; 0 of 2 nodes have reported")
    (folder / "batch.log").write_text("this node does not see /shared\n")
    (told,) = await stages(case)
    assert told.endswith("; its log ends with: this node does not see /shared")

    (folder / "nodes/1/host.state").write_text("{}")
    complaint = "no connection to the master, will try again: direct: No route to host"
    event = json.dumps({"event": complaint, "level": "warning"})
    (folder / "nodes/1/agent.log").write_text(f"{event}\n")
    case.joined = {first}
    (told,) = await stages(case)
    assert told.endswith(
        f"1 of 2 agents have joined; 1 of 2 nodes have reported; node 1: {complaint}"
    )


async def test_a_pilot_whose_agents_have_joined_boots_no_more(case: FakePilotCase) -> None:
    """Also when they are away for a while: that is told elsewhere."""
    ids = (await case.launch(case.intent(2))).instance_ids
    case.joined = set(ids)
    assert await stages(case) == {""}
    case.joined = set()
    case.now += JOIN_S + 1
    assert await stages(case) == {""}


async def test_of_a_large_job_the_first_nodes_are_asked(case: FakePilotCase) -> None:
    await case.launch(case.intent(8))
    await stages(case)
    case.now += JOIN_S + 1
    (told,) = await stages(case)
    assert told.endswith("0 of the first 4 nodes have reported")
