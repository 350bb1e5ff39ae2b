"""What every container runtime of the agent does, whatever it is made of."""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.containers.log_lines import read_lines
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime, StartRefused
from agent_bootstrap.agent.runtimes.engine import images
from agent_bootstrap.agent.runtimes.registry import SETUPS, RuntimeSetup, open_runtime
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, ExitRecord
from tests.fakes.fake_runtime import FakeRuntime, FakeTask
from tests.fakes.image_tools import image_tools
from tests.jails import open_way_to, works_or_skip
from tests.podman import IMAGE, Podman, unpacked_image
from windlass.base.errors import InvalidConfig

NODE = NodeFacts(master_url="http://master:8080", agent_id="a", cluster_id="c", master_id="m")
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
        *(
            "process-bubblewrap",
            "process-namespace",
            "process-directory",
            pytest.param("podman", marks=pytest.mark.slow),
            "docker",
        ),
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
        folder = request.getfixturevalue("tmp_path_factory").mktemp("programs")
        tools = image_tools(folder / "bin", request.getfixturevalue("monkeypatch"))
        # An unpacked one: a pull would be told in the task's log.
        made = ByCommand(tmp_path, image=str(tools.rootfs()), runtime=request.param)
    elif request.param.endswith("-installed"):
        program = request.param.removesuffix("-installed")
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        folder = request.getfixturevalue("tmp_path_factory").mktemp("image")
        image = unpacked_image(open_way_to(folder / "image"))
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
                with suppress(ProcessLookupError):  # it ended by itself meanwhile
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


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 7])
async def test_the_exit_code_is_the_tasks_own(kind: Kind, code: int) -> None:
    runtime, place = kind.open(), kind.place()
    await start(kind, runtime, place, kind.exits(code))
    assert told(await runtime.wait(place)) == (code, None)
    assert told(await runtime.wait(place)) == (code, None), "asked again"


@pytest.mark.slow
async def test_a_signal_reaches_the_first_process(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    assert await start(kind, runtime, place, kind.forever)
    runtime.signal(place, signal.SIGTERM)
    assert told(await runtime.wait(place)) == (143, None)
    runtime.signal(place, signal.SIGTERM)  # it has ended: nothing happens


@pytest.mark.slow
async def test_a_kill_ends_what_ignores_signals(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    assert await start(kind, runtime, place, kind.stubborn)
    runtime.signal(place, signal.SIGTERM)
    runtime.kill(place)
    runtime.kill(place)
    assert told(await runtime.wait(place)) == (137, None)


@pytest.mark.slow
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


@pytest.mark.slow
async def test_the_next_agent_takes_over_what_runs(kind: Kind) -> None:
    first, place = kind.open(), kind.place()
    assert await start(kind, first, place, kind.forever)
    first.detach()
    second = kind.open()
    assert await second.reattach(place)
    second.signal(place, signal.SIGTERM)
    assert told(await second.wait(place)) == (143, None)


@pytest.mark.slow
async def test_the_next_agent_learns_how_it_ended_meanwhile(kind: Kind) -> None:
    first, place = kind.open(), kind.place()
    await start(kind, first, place, kind.exits(3))
    await first.wait(place)
    first.detach()
    second = kind.open()
    assert not await second.reattach(place)
    assert told(await second.wait(place)) == (3, None)


@pytest.mark.slow
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


@pytest.mark.slow
async def test_nothing_is_left_of_it(kind: Kind) -> None:
    runtime, place = kind.open(), kind.place()
    assert await start(kind, runtime, place, kind.forever)
    runtime.kill(place)
    await runtime.wait(place)
    await runtime.gc(place)
    assert kind.processes(place) == []


def contained_or_skip(kind: Kind) -> None:
    if isinstance(kind, Fake) or (isinstance(kind, Process) and kind.isolation == "directory"):
        pytest.skip("nothing keeps tasks apart here")


def engine_or_skip(kind: Kind) -> None:
    if not isinstance(kind, Engine):
        pytest.skip("only for engines")


def lines(place: ContainerDir) -> list[tuple[str, str]]:
    entries = read_lines(place.output, 0, complete=True).entries
    return [(entry.stdtype, entry.log) for entry in entries]


@pytest.mark.slow
async def test_both_streams_are_kept_apart_and_whole(kind: Kind) -> None:
    if isinstance(kind, Fake):
        pytest.skip("it writes nothing")
    runtime, place = kind.open(), kind.place()
    script = (
        "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; echo oops >&2; printf last"
    )
    await start(kind, runtime, place, ("sh", "-c", script))
    await runtime.wait(place)
    said = lines(place)
    assert [text for stream, text in said if stream == "stderr"] == ["oops"]
    out = [text for stream, text in said if stream == "stdout"]
    assert out == [*(f"line {i}" for i in range(500)), "last"]


@pytest.mark.slow
async def test_no_line_is_lost_while_no_agent_watches(kind: Kind) -> None:
    if isinstance(kind, Fake):
        pytest.skip("it writes nothing")
    first, place = kind.open(), kind.place()
    script = "i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.02; done"
    assert await start(kind, first, place, ("sh", "-c", script))
    first.detach()
    second = kind.open()
    await second.sweep(frozenset({place.path.name}))
    await second.reattach(place)
    assert told(await second.wait(place)) == (0, None)
    assert [text for _, text in lines(place)] == [str(i) for i in range(40)]


@pytest.mark.slow
async def test_a_task_is_who_it_shall_be_and_can_write_where_it_lives(kind: Kind) -> None:
    contained_or_skip(kind)
    if os.geteuid() != 0:
        pytest.skip("only root runs tasks as others")
    runtime, place = kind.open(), kind.place()
    ann = {"uid": 70001, "gid": 70002, "user": "ann", "group": "staff"}
    script = "id -un; id -u; id -gn; cd; pwd; echo x > here && echo x > /tmp/there && cat here; cat /proc/self/status"
    await start(kind, runtime, place, ("sh", "-c", script), os_user=ann)
    assert told(await runtime.wait(place)) == (0, None), lines(place)
    said = [text for _, text in lines(place)]
    assert said[:5] == ["ann", "70001", "staff", "/run/determined/workdir", "x"]
    status = dict(line.split(":\t", 1) for line in said if ":\t" in line)
    assert {status[key] for key in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    # Apptainer filters no system calls unless its site has it do so.
    filtered = "0" if isinstance(kind, ByCommand) else "2"
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", filtered)
    assert (place.rundet / "workdir" / "here").stat().st_uid == 70001


@pytest.mark.slow
async def test_what_is_others_is_out_of_reach(kind: Kind) -> None:
    """The agent's token, other tasks' folders, variables and processes."""
    contained_or_skip(kind)
    runtime, other, place = kind.open(), kind.place(), kind.place()
    token = kind.work_dir / "credential"
    token.write_text("s3cret")
    await start(kind, runtime, other, kind.forever)
    looks = [f"ls {kind.work_dir}", f"cat {token}", f"ls {other.path}", "ls /var/lib/windlass"]
    # Its own processes are all that it sees.
    script = f"{'; '.join(looks)}; for f in /proc/[0-9]*/environ; do cat $f; done"
    await start(kind, runtime, place, ("sh", "-c", script))
    await runtime.wait(place)
    said = "".join(text for stream, text in lines(place) if stream == "stdout")
    assert place.path.name in said, "it sees its own variables"
    assert other.path.name not in said
    assert "s3cret" not in said
    runtime.kill(other)
    await runtime.wait(other)


@pytest.mark.slow
async def test_more_memory_than_allowed_ends_the_task_and_no_other(kind: Kind) -> None:
    if isinstance(kind, Fake):
        pytest.skip("it uses no memory")
    runtime, place, other = kind.open(), kind.place(), kind.place()
    limits = {"memory_bytes": 256 * 2**20}  # several Pythons start a task
    assert await start(kind, runtime, other, kind.forever, limits=limits)
    script = "import time; x = bytearray(1024 * 2**20); time.sleep(600)"
    if not isinstance(kind, Engine):  # which only tell what their container's first process used
        below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])"
        script = f"import threading; threading.Thread(target=exec, args=({below!r},)).start()"
    await start(kind, runtime, place, ("python3", "-c", script), limits=limits)
    ended = await runtime.wait(place)
    assert ended.message == (
        "the task was killed because it used more memory than its limit of 0.25 GiB"
    )
    assert kind.processes(place) == []
    runtime.signal(other, signal.SIGTERM)
    assert told(await runtime.wait(other)) == (143, None), "its neighbour has a limit of its own"


async def test_a_limit_of_processes_is_kept(kind: Kind) -> None:
    engine_or_skip(kind)
    runtime, place = kind.open(), kind.place()
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done; echo all"
    await start(kind, runtime, place, ("sh", "-c", script), limits={"pids": 6})
    ended = await runtime.wait(place)
    assert ended.exit_code != 0
    assert ("stdout", "all") not in lines(place)


async def test_containers_that_no_agent_knows_are_removed_at_its_start(kind: Kind) -> None:
    engine_or_skip(kind)
    first, kept, lost = kind.open(), kind.place(), kind.place()
    for place in (kept, lost):
        assert await start(kind, first, place, kind.forever)
    first.detach()
    second = kind.open()
    await second.sweep(frozenset({kept.path.name}))
    assert kind.processes(lost) == []
    assert kind.processes(kept) != []


async def test_a_container_whose_supervisor_was_killed_is_removed(kind: Kind) -> None:
    engine_or_skip(kind)
    runtime, place = kind.open(), kind.place()
    assert await start(kind, runtime, place, kind.forever)
    supervisor = place.read_json("supervisor.json")
    assert supervisor is not None
    os.kill(int(str(supervisor["pid"])), signal.SIGKILL)
    ended = await runtime.wait(place)
    assert told(ended) == (None, ExitFailure.AGENT_FAILED)
    assert kind.processes(place) == []


async def test_an_image_that_is_not_there_is_one_sentence(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_or_skip(kind)
    monkeypatch.setattr(images, "AGAIN_S", 0.01)
    runtime, place = kind.open(), kind.place()
    with pytest.raises(StartRefused, match="image localhost/nothing:1 "):
        await start(kind, runtime, place, kind.forever, image="localhost/nothing:1")
    assert ("stdout", "Pulling image localhost/nothing:1") in lines(place)


async def test_a_task_without_an_image_is_told_what_to_set(kind: Kind) -> None:
    engine_or_skip(kind)
    runtime, place = kind.open(), kind.place()
    with pytest.raises(StartRefused, match=r"names no image.*set environment\.image"):
        await start(kind, runtime, place, kind.forever, image="")


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
