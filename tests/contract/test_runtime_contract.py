"""What every container runtime of the agent does, whatever it is made of."""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from agent_bootstrap.agent.container_dir import ContainerDir, ContainerRecord
from agent_bootstrap.agent.environment import Node
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime, StartRefused
from agent_bootstrap.agent.runtimes.registry import SETUPS, RuntimeSetup, open_runtime
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, ExitRecord
from tests.fakes.fake_runtime import FakeRuntime, FakeTask
from tests.fakes.image_tools import NET, image_tools
from tests.jails import open_way_to, works_or_skip
from tests.podman import IMAGE, Podman, unpacked_image
from windlass.base.errors import InvalidConfig

NODE = Node(master_url="http://master:8080", agent_id="a", cluster_id="c", master_id="m")
Words = tuple[str, ...]


@dataclass
class Kind:
    """One runtime under test, and what to run in it."""

    work_dir: Path
    forever: Words = ("sh", "-c", "while :; do sleep 0.05; done")
    stubborn: Words = ("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
    opened: list[Runtime] = field(default_factory=list)

    image: str = ""
    """What its containers are made of, if it needs to be told."""

    def exits(self, code: int) -> Words:
        return ("sh", "-c", f"exit {code}")

    def open(self) -> Runtime:
        """As the next agent on this machine opens it."""
        self.opened.append(self._open())
        return self.opened[-1]

    def place(self) -> ContainerDir:
        """Of a new container."""
        name = f"c-{uuid.uuid4().hex[:12]}"
        place = ContainerDir(self.work_dir / name)
        place.create(
            ContainerRecord(container_id=name, allocation_id=f"{name}.1", task_id=name, boot_id="b")
        )
        return place

    def processes(self, place: ContainerDir) -> list[int]:
        """What still carries the container's id."""
        mark = f"DET_CONTAINER_ID={place.path.name}".encode()
        found = []
        for process in psutil.process_iter():
            try:
                if mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                    found.append(process.pid)
            except OSError:
                continue
        return found

    def _open(self) -> Runtime:
        raise NotImplementedError


@dataclass
class Process(Kind):
    isolation: str = "directory"

    def _open(self) -> Runtime:
        options = parse_options(
            {
                "master_url": "http://127.0.0.1:1",
                "isolation": self.isolation,
                "work_dir": str(self.work_dir),
            }
        )
        return open_runtime("process", RuntimeSetup(options=options))


@dataclass
class Engine(Kind):
    """Docker or Podman."""

    runtime: str = "podman"
    socket: str = ""

    def _open(self) -> Runtime:
        options = {
            "master_url": "http://127.0.0.1:1",
            "container_socket": self.socket,
            "work_dir": str(self.work_dir),
            "agent_id": self.work_dir.name,
        }
        return open_runtime(self.runtime, RuntimeSetup(options=parse_options(options)))


@dataclass
class ByCommand(Kind):
    """Apptainer or Singularity; by a stand-in that really runs the command, or as they are installed."""

    runtime: str = "apptainer"

    def _open(self) -> Runtime:
        options = {"master_url": "http://127.0.0.1:1", "work_dir": str(self.work_dir)}
        return open_runtime(self.runtime, RuntimeSetup(options=parse_options(options)))


@dataclass
class Fake(Kind):
    forever: Words = ("forever",)
    stubborn: Words = ("stubborn",)
    machine: dict[Path, FakeTask] = field(default_factory=dict)

    def exits(self, code: int) -> Words:
        return ("exit", str(code))

    def processes(self, place: ContainerDir) -> list[int]:
        return [1] if place.path in self.machine else []

    def _open(self) -> Runtime:
        return FakeRuntime(self.machine)


@pytest.fixture(
    params=[
        *("process-bubblewrap", "process-namespace", "process-directory", "podman", "docker"),
        *("apptainer", "singularity", "apptainer-installed", "singularity-installed"),
        "fake",
    ]
)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    if request.param == "fake":
        made: Kind = Fake(tmp_path)
    elif request.param == "podman":
        podman: Podman = request.getfixturevalue("podman")
        made = Engine(tmp_path, image=IMAGE, socket=str(podman.socket))
    elif request.param in ("apptainer", "singularity"):
        image_tools(tmp_path / "programs", request.getfixturevalue("monkeypatch"))
        made = ByCommand(tmp_path, image=NET, runtime=request.param)
    elif request.param.endswith("-installed"):
        program = request.param.removesuffix("-installed")
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        image = unpacked_image(open_way_to(tmp_path / "image"))
        made = ByCommand(tmp_path, image=str(image), runtime=program)
    elif request.param == "docker":
        made = Engine(tmp_path, runtime="docker", image=docker_image(), socket=docker_socket())
    else:
        isolation = request.param.removeprefix("process-")
        works_or_skip(isolation, tmp_path)
        made = Process(tmp_path, isolation=isolation)
    yield made
    for path in tmp_path.glob("c-*"):
        for pid in made.processes(ContainerDir(path)):
            if pid > 1:
                os.kill(pid, signal.SIGKILL)


def docker_socket() -> str:
    socket = os.environ.get("WINDLASS_TEST_DOCKER_SOCKET", "")
    if not socket:
        pytest.skip("WINDLASS_TEST_DOCKER_SOCKET names no socket of a Docker engine")
    return socket


def docker_image() -> str:
    return os.environ.get("WINDLASS_TEST_DOCKER_IMAGE", "python:3.11-slim")


def spec_of(kind: Kind, place: ContainerDir, words: Words, **more: object) -> ContainerSpec:
    name = place.path.name
    return ContainerSpec(
        container_id=name,
        allocation_id=f"{name}.1",
        task_id=name,
        task_type="COMMAND",
        entrypoint=words,
        environment={},
        options=ContainerOptions.model_validate({"image": kind.image, **more}),
    )


async def start(
    kind: Kind, runtime: Runtime, place: ContainerDir, words: Words, **options: object
) -> bool:
    return await runtime.start(place, spec_of(kind, place, words, **options), NODE)


def told(record: ExitRecord) -> tuple[int | None, ExitFailure | None]:
    return record.exit_code, record.failure


@pytest.mark.parametrize("code", [0, 7])
async def test_the_exit_code_is_the_tasks_own(kind: Kind, code: int) -> None:
    runtime, place = kind.open(), kind.place()
    await start(kind, runtime, place, kind.exits(code))
    assert told(await runtime.wait(place)) == (code, None)
    assert told(await runtime.wait(place)) == (code, None), "asked again"


async def test_a_signal_reaches_the_first_process(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    assert await start(kind, runtime, place, kind.forever)
    runtime.signal(place, signal.SIGTERM)
    assert told(await runtime.wait(place)) == (143, None)
    runtime.signal(place, signal.SIGTERM)  # it has ended: nothing happens


async def test_a_kill_ends_what_ignores_signals(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    assert await start(kind, runtime, place, kind.stubborn)
    runtime.signal(place, signal.SIGTERM)
    runtime.kill(place)
    runtime.kill(place)
    assert told(await runtime.wait(place)) == (137, None)


async def test_a_kill_before_the_start_prevents_it(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    runtime.kill(place)
    with pytest.raises(StartRefused) as refused:
        await start(kind, runtime, place, kind.forever)
    assert refused.value.failure is ExitFailure.ABORTED
    assert kind.processes(place) == []


async def test_what_cannot_be_run_is_the_users_error_in_words(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    with pytest.raises(StartRefused, match="entrypoint is empty") as refused:
        await start(kind, runtime, place, ())
    assert refused.value.failure is ExitFailure.TASK_ERROR


async def test_the_next_agent_takes_over_what_runs(kind: Kind) -> None:
    first, place = kind.open(), kind.place()
    assert await start(kind, first, place, kind.forever)
    first.detach()
    second = kind.open()
    assert await second.reattach(place)
    second.signal(place, signal.SIGTERM)
    assert told(await second.wait(place)) == (143, None)


async def test_the_next_agent_learns_how_it_ended_meanwhile(kind: Kind) -> None:
    first, place = kind.open(), kind.place()
    await start(kind, first, place, kind.exits(3))
    await first.wait(place)
    first.detach()
    second = kind.open()
    assert not await second.reattach(place)
    assert told(await second.wait(place)) == (3, None)


async def test_a_kill_is_carried_out_by_the_next_agent(kind: Kind) -> None:
    first, place = kind.open(), kind.place()
    assert await start(kind, first, place, kind.stubborn)
    first.detach()
    place.mark_killed()  # all that the first one came to do
    second = kind.open()
    await second.reattach(place)
    assert told(await second.wait(place)) == (137, None)


async def test_what_was_never_started_is_told_as_that(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    assert not await runtime.reattach(place)
    assert told(await runtime.wait(place)) == (None, ExitFailure.ABORTED)


async def test_nothing_is_left_of_it(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    assert await start(kind, runtime, place, kind.forever)
    runtime.kill(place)
    await runtime.wait(place)
    await runtime.gc(place)
    assert kind.processes(place) == []


@pytest.mark.parametrize("name", ["kubernetes", "proces", ""])
def test_a_runtime_that_is_not_there_is_answered_with_those_that_are(
    name: str, tmp_path: Path
) -> None:
    options = parse_options({"master_host": "m", "work_dir": str(tmp_path)})
    with pytest.raises(InvalidConfig) as caught:
        open_runtime(name, RuntimeSetup(options=options))
    assert caught.value.problems == (
        f'container_runtime: "{name}" is not available, write one of: {", ".join(["auto", *SETUPS])}',
    )
