"""Which ends and which output are reported from the directory of an agent that is gone."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_bootstrap.agent.collect import EndedRuntime, drop_doubtful, exit_of, is_told
from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.daemon import AgentDaemon, AgentEnd
from agent_bootstrap.agent.machine import MachineRecord
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.protocol import AgentChannel, ChannelClosed
from tests.fakes.virtual_time import LoopClock, run

ENDED = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def container(folder: Path, **told: object) -> ContainerDir:
    """One whose supervisor has written down an end, if `told` has a code."""
    place = ContainerDir(folder / "containers" / "c1")
    place.path.mkdir(parents=True)
    who = {"container_id": "c1", "allocation_id": "a.1", "task_id": "a", "boot_id": "gone"}
    (place.path / "container.json").write_text(json.dumps(who))
    if told:
        end = {"at": 0.0, "setup_error": None, "lifeline_lost": False, "started": True, **told}
        (place.path / "exit.json").write_text(json.dumps(end))
    return place


@pytest.mark.parametrize(
    ("end", "is_kept"),
    [
        ({"exit_code": 0, "at": ENDED.timestamp() + 5}, True),
        ({"exit_code": 1, "at": ENDED.timestamp() - 5}, True),
        ({"exit_code": 143, "at": ENDED.timestamp() + 5}, False),
        ({"exit_code": 0, "at": ENDED.timestamp() - 5, "lifeline_lost": True}, False),
    ],
)
def test_a_bad_end_beside_that_of_the_job_is_the_jobs(
    tmp_path: Path, end: dict[str, object], is_kept: bool
) -> None:
    place = container(tmp_path, **end)
    drop_doubtful(tmp_path, ENDED)
    assert (exit_of(place) is not None) is is_kept


def test_all_is_told_when_ends_are_forgotten_and_output_was_sent(tmp_path: Path) -> None:
    assert is_told(tmp_path)
    place = container(tmp_path)
    line = b"1700000000000000 o a line\n"
    place.output.write_bytes(line)
    assert not is_told(tmp_path)
    place.write_shipped(len(line))
    assert is_told(tmp_path)
    (place.path / "exit.json").write_text(
        json.dumps(
            {"exit_code": 0, "at": 0, "setup_error": None, "lifeline_lost": False, "started": True}
        )
    )
    assert not is_told(tmp_path)


@pytest.mark.parametrize("has_ended", [True, False])
def test_an_agent_alone_with_what_has_ended_is_idle(tmp_path: Path, has_ended: bool) -> None:
    """What it could not tell waits in its directory; what runs keeps it."""
    container(tmp_path, **({"exit_code": 0} if has_ended else {}))

    async def nobody(_: str) -> AgentChannel:
        raise ChannelClosed("no master")

    async def main() -> AgentEnd | None:
        agent = AgentDaemon(
            AgentOptions(
                master_url="http://127.0.0.1:1",
                agent_id="a",
                work_dir=tmp_path,
                artificial_slots=3,
                alone_ttl="1m",  # type: ignore[arg-type]
            ),
            connect=nobody,
            clock=LoopClock(),
            open_runtime=lambda *_: EndedRuntime(),
        )
        try:
            async with asyncio.timeout(600):
                return await agent.run()
        except TimeoutError:
            return None

    end = run(main(), limit_s=3600)
    if has_ended:
        assert end is not None
        assert "nothing to do" in end.reason
        assert len(MachineRecord.of(tmp_path).slots) == 3
        assert (tmp_path / "containers" / "c1" / "verdict.json").exists()
    else:
        assert end is None
