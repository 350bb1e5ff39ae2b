"""Slow steps of the event loop are told, by CPU time, with their names."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import structlog

from agent_bootstrap.log_setup import set_up_logging
from master.server import loop_watch
from master.server.loop_watch import WatchedLoop
from tests.real_cluster import RealCluster


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def busy() -> None:
    await asyncio.sleep(0)
    spin(0.06)
    await asyncio.sleep(0)


def told_of(main: Coroutine[Any, Any, None]) -> list[tuple[str, float]]:
    told: list[tuple[str, float]] = []
    with asyncio.Runner(
        loop_factory=lambda: WatchedLoop(lambda *what: told.append(what))
    ) as runner:
        told.clear()  # what making a loop took
        runner.run(main)
    return told


def test_a_slow_step_of_a_task_is_named() -> None:
    async def main() -> None:
        await asyncio.create_task(busy())
        await asyncio.sleep(0)

    ((name, seconds),) = told_of(main())
    assert name.startswith("busy")
    assert seconds >= 0.06


def test_a_slow_callback_is_named() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(spin, 0.06)
        await asyncio.sleep(0.001)

    ((name, _),) = told_of(main())
    assert name == "spin"


def test_waiting_is_not_working() -> None:
    async def main() -> None:
        time.sleep(0.1)  # noqa: ASYNC251
        await asyncio.sleep(0.1)

    assert told_of(main()) == []


def test_the_log_says_what_held_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    loop_watch.log_slow("busy", 0.0601)
    out = "".join(capsys.readouterr())
    assert "the event loop was held" in out
    assert "cpu_ms=60" in out
    assert "busy" in out


@pytest.mark.parametrize("time_", ["first", "second"])
def test_what_a_test_sets_up_of_logging_ends_with_it(time_: str) -> None:
    assert not structlog.is_configured(), time_
    set_up_logging("debug", color=False)
    loop_watch.log.warning("kept by the logger")
    assert "bind" not in vars(loop_watch.log)


def test_a_test_cluster_finds_it_in_the_log(tmp_path: Path) -> None:
    cluster = RealCluster(tmp_path, {})
    events = [{"event": loop_watch.HELD, "cpu_ms": ms} for ms in (249, 250)]
    (tmp_path / "master.log").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    assert cluster.held_loop() == events[1:]
