"""A task that writes more than its node may keep while nobody takes its output."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from agent_scripted_master import ScriptedMaster, spec
from conftest import RunAgent

from windlass.base.processes import ProcessName, wait_gone

MIB = 2**20
LIMIT_GIB = 1 / 64
CHATTY = """
print("first", flush=True)
for _ in range(12_000):
    print("x" * 4000)
print("last")
"""


@pytest.fixture
def isolation() -> str:
    return "directory"


async def test_it_fills_no_disk_and_its_beginning_and_end_reach_the_master(
    run_agent: RunAgent, master: ScriptedMaster, work_dir: Path, cid: str
) -> None:
    place = work_dir / "containers" / cid
    async with run_agent(task_log_gib=LIMIT_GIB):
        await master.start(spec(cid, sys.executable, "-c", CHATTY))
        await master.until_line(cid, "first")
        master.acks = False
    who = json.loads((place / "supervisor.json").read_text())
    supervisor = ProcessName(who["pid"], who["start_time"], who["boot_id"])
    assert await asyncio.to_thread(wait_gone, supervisor, 60)
    output = (place / "output.log").stat()
    assert output.st_blocks * 512 <= 16 * MIB
    master.acks = True
    async with run_agent(task_log_gib=LIMIT_GIB):
        assert (await master.exit_of(cid)).exit_code == 0
        texts = master.text(cid)
        assert (texts[0], texts[-1]) == ("first", "last")
        (gap,) = [text for text in texts if "lines of output" in text]
        assert "are missing here: the agent keeps 14 MiB that the master has not taken" in gap
        assert set(texts) == {"first", "last", gap, "x" * 4000}
        assert output.st_size == master.offsets[cid]
