"""Whatever agents send, in whatever order, to the master's real socket: no traceback, nobody else's work changes, and
the master goes on answering. As strangers, with the token of the pool, and with a credential of their own.

The same examples each time, unless WINDLASS_EXPLORE is set.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from agent_sockets import Served, hello, served
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.examples import examples
from tests.fakes.agents_world import TOKEN
from tests.fakes.api_world import api_world
from tests.fakes.fake_agent import FakeAgent

EXAMPLES = 150
Frame: TypeAlias = str | bytes
NAMES = ("victim", "holder", "other", "VICTIM-CONTAINER", "VICTIM-ALLOCATION", "VICTIM-TASK", "c")
"""Those in capitals stand for what is known only later: the ids of the work that others run."""
TIMES = (
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "1970-01-01T00:00:00Z",
    "2200-01-01T00:00:00Z",
    "9999-12-31T23:59:59-14:00",
    "2026-01-01T00:00:00",
)

names = st.sampled_from(NAMES) | st.text(max_size=20)
numbers = st.sampled_from([-1, 0, 1, 5, 100, 262_144, 10**12, 2**62, 2**63, 10**30]) | st.integers()
times = st.sampled_from(TIMES) | st.text(max_size=10)
junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats() | numbers | names | times,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
exits = st.none() | st.fixed_dictionaries(
    {"exit_code": st.sampled_from([0, 1, 137, None, 2**40]), "at": times},
    optional={"message": st.text(max_size=50), "failure": st.sampled_from(["aborted", "x"])},
)
reports = st.fixed_dictionaries(
    {
        "type": st.just("container_report"),
        "container_id": names,
        "allocation_id": names,
        "state": st.sampled_from(["STARTING", "RUNNING", "EXITED", "LOST"]),
    },
    optional={"exit": exits},
)
leavings = st.fixed_dictionaries({"type": st.just("leaving"), "at": times, "reason": st.text()})
slots = st.lists(
    st.fixed_dictionaries(
        {"id": numbers, "kind": st.sampled_from(["cpu", "cuda", "artificial", "?"])},
        optional={"uuid": st.text(max_size=9), "brand": st.text(max_size=9)},
    ),
    max_size=3,
)
hellos = st.fixed_dictionaries(
    {
        "type": st.just("hello"),
        "version": st.text(max_size=5),
        "agent_id": names,
        "pool": st.sampled_from(["default", "other"]),
        "boot_id": st.sampled_from(["boot-1", "boot-2"]),
    },
    optional={
        "protocol": st.sampled_from([1, 2]),
        "instance_id": names,
        "address": st.text(max_size=9),
        "slots": slots,
        "containers": st.lists(reports, max_size=3),
        "highest_epoch": numbers,
        "notes": st.lists(st.text(max_size=9), max_size=3),
        "labels": st.lists(st.text(max_size=9), max_size=3),
        "ends_at": times,
        "leaving": leavings,
    },
)
beats = st.fixed_dictionaries(
    {"type": st.just("heartbeat")}, optional={"disk_free_bytes": numbers, "notes": st.lists(names)}
)
lines = st.fixed_dictionaries(
    {"timestamp": times, "stdtype": st.sampled_from(["stdout", "stderr"]), "log": st.text()},
    optional={"level": st.sampled_from(["INFO", "?"]), "rank_id": numbers},
)
batches = st.fixed_dictionaries(
    {
        "type": st.just("log_batch"),
        "container_id": names,
        "allocation_id": names,
        "task_id": names,
        "agent_id": names,
        "first_offset": numbers,
        "next_offset": numbers,
        "entries": st.lists(lines, max_size=3),
    }
)
masters = st.sampled_from(
    ["welcome", "refused", "start_container", "kill_container", "shutdown"]
).map(lambda kind: {"type": kind, "epoch": 9, "reason": "x", "container_id": "VICTIM-CONTAINER"})
messages = hellos | reports | leavings | beats | batches | masters


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A message in which one thing is wrong: a key is gone, new, or has something else as its value."""
    message = dict(draw(messages))
    key = draw(st.sampled_from(sorted(message)) | st.text(max_size=5))
    if draw(st.booleans()):
        message.pop(key, None)
    else:
        message[key] = draw(junk)
    return message


frames: st.SearchStrategy[Frame] = (
    (messages | mutated() | junk).map(json.dumps)
    | mutated().map(lambda message: json.dumps(message).encode()[:-1])
    | st.text(max_size=50)
    | st.binary(max_size=50)
    | st.sampled_from(
        ['{"x":' * 300, "[" * 5000, '{"type":"heartbeat","x":"' + "x" * 70_000 + '"}']
    )
)


@dataclass(frozen=True, slots=True)
class Script:
    """One connection: with what it dials, whether it begins as a well-behaved agent, and what it sends."""

    token: str
    credential: str
    polite: str
    frames: list[Frame] = field(default_factory=list)


scripts = st.builds(
    Script,
    token=st.sampled_from([TOKEN, TOKEN, "", "wrong"]),
    credential=st.sampled_from(["of holder", "of holder", "", "of nobody"]),
    polite=st.sampled_from(["holder", "holder", "victim", ""]),
    frames=st.lists(frames, min_size=1, max_size=8),
)


@dataclass(slots=True)
class Target:
    """A cluster in which the agent `victim` runs a trial, and a loop that it lives on."""

    runner: asyncio.Runner
    master: Served
    victim: FakeAgent
    ids: dict[str, str]
    before: Any = None
    refusals: set[int] = field(default_factory=set)

    async def state(self) -> Any:
        """Of everything that only the victim and its owner may change."""
        world = self.master.world
        agent = await world.ok("GET", "/api/v1/agents/victim")
        tasks = (await world.ok("GET", "/api/v1/tasks"))["allocationIdToSummary"]
        logs = await world.lines(f"/api/v1/tasks/{self.ids['VICTIM-TASK']}/logs")
        trial = await world.ok("GET", f"/api/v1/trials/{world.trial_id(1)}")
        return agent, tasks, logs, trial, sorted(self.victim.containers)

    async def play(self, scripts: list[Script]) -> None:
        world = self.master.world
        _, agents = await asyncio.gather(
            asyncio.gather(*(self._dial(script) for script in scripts)),
            world.ok("GET", "/api/v1/agents"),
        )
        assert self.refusals <= {403}
        assert "victim" in {agent["id"] for agent in agents["agents"]}
        assert await self.state() == self.before
        assert self.victim.connected

    async def _dial(self, script: Script) -> None:
        try:
            connection = await self.master.dial(token=script.token, credential=script.credential)
        except InvalidStatus as refused:
            self.refusals.add(refused.response.status_code)
            return
        try:
            with suppress(ConnectionClosed):
                if script.polite:
                    await connection.send(json.dumps(hello(script.polite)))
                for frame in script.frames:
                    await connection.send(self._filled(frame))
            with suppress(ConnectionClosed):
                await connection.close()
        finally:
            connection.transport.abort()

    def _filled(self, frame: Frame) -> Frame:
        for name, id_ in self.ids.items():
            frame = _replaced(frame, name, id_)
        return frame


def _replaced(frame: Frame, name: str, id_: str) -> Frame:
    if isinstance(frame, str):
        return frame.replace(name, id_)
    return frame.replace(name.encode(), id_.encode())


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    async def build(stack: AsyncExitStack, folder: Path) -> Target:
        world = await stack.enter_async_context(api_world(folder))
        await world.login()
        master = await stack.enter_async_context(served(world))
        victim = await world.add_agent("victim", credential="of victim")
        run = await world.run_of(await world.create())
        (container,) = run.containers
        ids = {
            "VICTIM-CONTAINER": container.container.container_id,
            "VICTIM-ALLOCATION": run.id,
            "VICTIM-TASK": run.task_id,
        }
        victim.log(ids["VICTIM-CONTAINER"], "one line")
        await victim.until(lambda: not victim.unacked)
        target = Target(runner, master, victim, ids)
        target.before = await target.state()
        return target

    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        # The cluster lives in one task, as its task groups must; examples come and go beside it.
        built: asyncio.Future[Target] = runner.get_loop().create_future()
        over = asyncio.Event()

        async def live() -> None:
            async with stack:
                built.set_result(await build(stack, tmp_path_factory.mktemp("cluster")))
                await over.wait()

        async def begin() -> Target:
            nonlocal living
            living = asyncio.create_task(live())
            await asyncio.wait({living, built}, return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
            return await built

        living: asyncio.Task[None] | None = None
        yield runner.run(begin())

        async def end() -> None:
            over.set()
            assert living is not None
            await living

        runner.run(end())


class _Tracebacks(logging.Handler):
    """What was logged with an exception, or as an error: nobody expects one here."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


@pytest.fixture
def tracebacks() -> Iterator[_Tracebacks]:
    handler = _Tracebacks()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@settings(
    max_examples=examples(EXAMPLES),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(scripts=st.lists(scripts, min_size=1, max_size=3))
def test_no_frame_of_an_agent_breaks_the_master_or_touches_anothers_work(
    target: Target, tracebacks: _Tracebacks, scripts: list[Script]
) -> None:
    target.runner.run(target.play(scripts))
    assert tracebacks.found == []
