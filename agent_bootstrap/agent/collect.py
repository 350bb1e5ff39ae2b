"""Tells the master what the agent of a machine that is gone could not: ends, and output that was not sent.

usage: python -P -m agent_bootstrap.agent.collect --config-file F --ended-before T

An agent of the same name on the same work_dir, which runs nothing: it ends when all of that was taken. F is the gone
agent's agent.yaml. A bad end at T (seconds since the epoch) or later counts as that of the machine, not of the task:
nothing is said of it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from agent_bootstrap.agent.connection.websocket import connect
from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.containers.log_lines import read_lines
from agent_bootstrap.agent.daemon import AgentDaemon, Connect
from agent_bootstrap.agent.machine import MachineRecord
from agent_bootstrap.agent.option_layers import load_options
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.base import OnPull, StartRefused, ignored
from agent_bootstrap.agent.runtimes.process import told_verdict
from agent_bootstrap.agent.slots import Hardware
from agent_bootstrap.log_setup import set_up_logging
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, ExitRecord, IsolationKind
from windlass.base.errors import WindlassError

LIMIT_S = 120.0
"""For a master that does not answer: it asks again."""
LOOK_S = 0.1


class EndedRuntime:
    """Implements `Runtime` for a machine on which nothing runs any more."""

    name = "ended"
    notes: tuple[str, ...] = ()

    def __init__(self, isolation: IsolationKind = IsolationKind.UNKNOWN) -> None:
        self.isolation = isolation

    async def start(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, on_pull: OnPull = ignored
    ) -> bool:
        raise StartRefused(ExitFailure.ABORTED, "its machine is gone")

    async def reattach(self, place: ContainerDir) -> bool:
        return False

    async def wait(self, place: ContainerDir) -> ExitRecord:
        """Of a task that ended with its machine nothing is said."""
        told = exit_of(place)
        return told if told is not None else await asyncio.Future[ExitRecord]()

    async def node_port(self, place: ContainerDir, port: int) -> int:
        raise ConnectionError("its machine is gone")

    def signal(self, place: ContainerDir, signum: int) -> None: ...

    def kill(self, place: ContainerDir) -> None: ...

    async def sweep(self, known: frozenset[str]) -> None: ...

    def detach(self) -> None: ...

    async def gc(self, place: ContainerDir) -> None: ...


def exit_of(place: ContainerDir) -> ExitRecord | None:
    """As the agent decided it, or the supervisor wrote it down."""
    if (decided := place.verdict()) is not None:
        return decided
    told = place.read_json("exit.json")
    return None if told is None else told_verdict(place, told)


def drop_doubtful(work_dir: Path, before: datetime) -> None:
    """Ends that are those of the machine: a batch system that ends a job signals all of its processes."""
    for place in _places(work_dir):
        ended = exit_of(place)
        is_bad = ended is not None and (ended.exit_code != 0 or ended.failure is not None)
        if ended is None or not is_bad:
            continue
        if ended.failure is ExitFailure.AGENT_FAILED or ended.at is None or ended.at >= before:
            for name in ("verdict.json", "exit.json"):
                (place.path / name).unlink(missing_ok=True)


def is_told(work_dir: Path) -> bool:
    """The master has all output of all containers, and every end of which something is said."""
    return all(
        exit_of(place) is None
        and not read_lines(place.output, place.shipped(), complete=True).entries
        for place in _places(work_dir)
    )


async def collect(options: AgentOptions, *, dial: Connect) -> bool:
    """False: the master did not take it in time."""
    machine = await asyncio.to_thread(MachineRecord.of, options.work_dir)
    agent = AgentDaemon(
        options,
        connect=dial,
        open_runtime=lambda *_: EndedRuntime(machine.isolation),
        find_hardware=lambda *_, **__: Hardware(slots=machine.slots, takes_work=False),
    )
    running = asyncio.create_task(agent.run())
    try:
        async with asyncio.timeout(LIMIT_S):
            while not await asyncio.to_thread(is_told, options.work_dir):
                await asyncio.wait([running], timeout=LOOK_S)
                if running.done():
                    return False
    except TimeoutError:
        return False
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return True


def _places(work_dir: Path) -> Iterator[ContainerDir]:
    containers = work_dir / "containers"
    return (
        (ContainerDir(path) for path in containers.iterdir()) if containers.exists() else iter(())
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="agent_bootstrap.agent.collect", description=__doc__)
    parser.add_argument("--config-file", type=Path, required=True)
    parser.add_argument("--ended-before", type=float, required=True)
    given = parser.parse_args()
    try:
        options = load_options(given.config_file).options
        set_up_logging(options.log.level, color=False)
        drop_doubtful(options.work_dir, datetime.fromtimestamp(given.ended_before, UTC))
        told = asyncio.run(collect(options, dial=partial(connect, options)))
    except (WindlassError, OSError, ValidationError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if told else 1


if __name__ == "__main__":
    sys.exit(main())
