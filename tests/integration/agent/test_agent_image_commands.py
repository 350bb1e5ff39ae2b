"""Tasks in images by Apptainer, by a stand-in that answers recorded command lines and really runs the command."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_bootstrap.agent.connection.link import MasterLink
from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.containers.log_lines import read_lines
from agent_bootstrap.agent.gpus.gpu import Gpu
from agent_bootstrap.agent.logins import Logins
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime, StartRefused
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.container_options import ContainerOptions, Device, OsUser, RegistryLogin
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, RegistryCredentials, SlotKind
from tests.fakes.image_tools import BARE, NET, PASSWORD, PRIVATE, USER, ImageTools, image_tools
from tests.jails import open_way_to

NODE = NodeFacts(master_url="http://master:8080", agent_id="a", cluster_id="c", master_id="m")
LIMIT_S = 60.0


class OneLogin(Logins):
    """What the master would answer."""

    def __init__(self, login: RegistryCredentials | None) -> None:
        super().__init__(MasterLink())
        self._login = login

    async def of(self, spec: ContainerSpec) -> RegistryCredentials | None:
        return self._login if spec.options.registry_login is not None else None


class Node1:
    """One agent's runtime, and containers on it."""

    def __init__(
        self,
        folder: Path,
        tools: ImageTools,
        login: RegistryCredentials | None = None,
        **options: Any,
    ) -> None:
        self.work_dir = folder / "agent"
        self.tools = tools
        self._count = 0
        self.told: list[bool] = []
        """That a pull began, or was over."""
        given = {
            "master_url": "http://127.0.0.1:1",
            "work_dir": str(self.work_dir),
            "agent_id": "a",
            **options,
        }
        setup = RuntimeSetup(options=parse_options(given), logins=OneLogin(login))
        self.work_dir.mkdir(mode=0o700)
        self.runtime: Runtime = open_runtime(options.get("container_runtime", "apptainer"), setup)

    def place(self) -> ContainerDir:
        self._count += 1
        name = f"c{self._count}"
        place = ContainerDir(self.work_dir / name)
        record = ContainerRecord(
            container_id=name, allocation_id=f"{name}.1", task_id=name, boot_id="b"
        )
        place.create(record)
        return place

    async def start(
        self,
        place: ContainerDir,
        *words: str,
        image: str = NET,
        node: NodeFacts = NODE,
        slot_ids: tuple[int, ...] = (),
        **options: Any,
    ) -> bool:
        name = place.path.name
        spec = ContainerSpec(
            container_id=name,
            allocation_id=f"{name}.1",
            task_id=name,
            task_type="COMMAND",
            entrypoint=words or ("true",),
            environment={"OWN": "1"},
            slot_ids=slot_ids,
            options=ContainerOptions(image=image, **options),
        )
        return await self.runtime.start(place, spec, node, self.told.append)

    async def run(self, *words: str, **options: Any) -> str:
        """Its output once it has ended well."""
        place = self.place()
        async with asyncio.timeout(LIMIT_S):
            await self.start(place, *words, **options)
            ended = await self.runtime.wait(place)
        said = log_of(place)
        assert (ended.exit_code, ended.failure) == (0, None), (ended, said)
        await self.runtime.gc(place)
        return "\n".join(line for line in said.splitlines() if not line.startswith("INFO:"))

    async def refusal(self, **options: Any) -> StartRefused:
        with pytest.raises(StartRefused) as refused:
            async with asyncio.timeout(LIMIT_S):
                await self.start(self.place(), **options)
        return refused.value

    @property
    def pulls(self) -> int:
        return sum(call[1] in ("pull", "build") for call in self.tools.calls)


def log_of(place: ContainerDir) -> str:
    if not place.output.exists():
        return ""
    entries = read_lines(place.output, 0, complete=True).entries
    return "\n".join(
        f"{entry.level}: {entry.log}" if entry.level else entry.log for entry in entries
    )


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  (of other processes)
        await asyncio.sleep(0.02)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageTools:
    return image_tools(tmp_path / "programs", monkeypatch)


async def test_a_task_is_its_user_with_a_name_a_home_and_folders_of_its_own(
    tmp_path: Path, tools: ImageTools
) -> None:
    node = Node1(tmp_path, tools)
    looks = "id -u; id -un; pwd; touch $HOME/a /tmp/b && echo wrote; grep -c ^root: /etc/passwd"
    said = await node.run("sh", "-c", looks)
    uid = os.geteuid() or 65530
    name = said.splitlines()[1]
    assert said.splitlines() == [str(uid), name, "/run/determined/workdir", "wrote", "1"]
    assert name != str(uid), "it has a name"


async def test_a_task_sees_its_variables_and_nothing_of_the_agent(
    tmp_path: Path, tools: ImageTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_SECRET", "hush")
    node = Node1(tmp_path, tools)
    said = await node.run("sh", "-c", f"env; ls -d {node.work_dir} {tmp_path} /proc/[0-9]* ; true")
    assert "OWN=1" in said.splitlines()
    assert "DET_CONTAINER_ID=c1" in said.splitlines()
    assert "hush" not in said
    assert not any(line == str(tmp_path) for line in said.splitlines())
    processes = [line for line in said.splitlines() if line.startswith("/proc/")]
    assert 0 < len(processes) < 8, "only its own"


async def test_launcher_and_core_api_are_there_whatever_the_image_has(
    tmp_path: Path, tools: ImageTools
) -> None:
    said = await Node1(tmp_path, tools).run("{python}", "-c", "import windlass.core; print('here')")
    assert said == "here"


async def test_many_tasks_at_once_have_one_image_made(tmp_path: Path, tools: ImageTools) -> None:
    node = Node1(tmp_path, tools)
    tools.hold()
    places = [node.place() for _ in range(3)]
    starting = [asyncio.create_task(node.start(place, "true")) for place in places]
    async with asyncio.timeout(LIMIT_S):
        await until(lambda: sum("Waiting for image" in log_of(place) for place in places) == 2)
        tools.let_go()
        await asyncio.gather(*starting)
        for place in places:
            assert (await node.runtime.wait(place)).exit_code == 0
    assert node.pulls == 1
    assert sorted(node.told) == [False] * 3 + [True] * 3, "who waits for another's pull pulls, too"
    logs = "\n".join(map(log_of, places))
    assert f"Pulling image {NET} with apptainer 1.3.4" in logs
    assert "INFO: INFO:    Fetching OCI image..." in logs or "Converting OCI blobs" in logs
    assert f"Image {NET} is ready" in logs
    assert "\x1b" not in logs
    await node.run("true")
    assert (node.pulls, len(node.told)) == (1, 6)
    await node.run("true", force_pull_image=True)
    assert node.pulls == 2, "asked for again"


async def test_what_cannot_be_pulled_is_one_sentence(tmp_path: Path, tools: ImageTools) -> None:
    node = Node1(tmp_path, tools)
    missing = await node.refusal(image="registry.example/none:1")
    assert str(missing).startswith(
        "image registry.example/none:1 does not exist: check the name and the tag ("
    )
    private = await node.refusal(image=PRIVATE)
    assert "set environment.registry_auth if it is private" in str(private)
    nameless = await node.refusal(image="No Name")
    assert str(nameless).startswith('environment.image: "No Name" holds a space')
    none = await node.refusal(image="")
    assert "set environment.image" in str(none)
    assert {missing.failure, private.failure, none.failure} == {ExitFailure.TASK_ERROR}
    images = node.work_dir / "images"
    assert [path for path in images.iterdir() if not path.name.endswith(".lock")] == []


async def test_an_image_without_python_is_told(tmp_path: Path, tools: ImageTools) -> None:
    node = Node1(tmp_path, tools)
    place = node.place()
    await node.start(place, image=BARE)
    ended = await node.runtime.wait(place)
    assert ended.failure is ExitFailure.TASK_ERROR
    assert "the image has no python3" in ended.message


@pytest.mark.parametrize("path", ["/etc/shadow", "/dev/../etc", "/dev", "relative", "/dev/fd"])
async def test_a_device_is_no_way_around_the_rules_for_mounts(
    tmp_path: Path, tools: ImageTools, path: str
) -> None:
    node = Node1(tmp_path, tools)
    refused = await node.refusal(devices=(Device(host_path=path, container_path="/dev/x"),))
    assert str(refused).startswith(f"resources.devices: {path} is not in /dev: mount files")
    assert node.pulls == 0


async def test_a_login_is_used_and_leaves_no_trace(tmp_path: Path, tools: ImageTools) -> None:
    node = Node1(tmp_path, tools, RegistryCredentials(username=USER, password=PASSWORD))
    auth = RegistryLogin(reference="t")
    place = node.place()
    await node.start(place, image=PRIVATE, registry_login=auth)
    assert (await node.runtime.wait(place)).exit_code == 0
    assert PASSWORD not in json.dumps(tools.calls)
    files = [path for path in node.work_dir.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
    assert "set environment.registry_auth" in str(await node.refusal(image=PRIVATE)), (
        "who has no login does not get what another one's pulled"
    )


async def test_a_wrong_login_and_one_for_elsewhere(tmp_path: Path, tools: ImageTools) -> None:
    node = Node1(tmp_path, tools, RegistryCredentials(username=USER, password="wrong"))
    auth = RegistryLogin(reference="t")
    refused = await node.refusal(image=PRIVATE, registry_login=auth)
    assert "check registry_auth" in str(refused)
    (tmp_path / "b").mkdir()
    elsewhere = RegistryCredentials(
        server="https://other.example/v1/", username=USER, password=PASSWORD
    )
    node = Node1(tmp_path / "b", tools, elsewhere)
    place = node.place()
    await node.start(place, registry_login=auth)
    await node.runtime.wait(place)
    assert (
        "WARNING: registry_auth is for https://other.example/v1/, but the image is at registry.example: not used"
        in log_of(place)
    )


async def test_a_kill_ends_the_pull(tmp_path: Path, tools: ImageTools) -> None:
    node = Node1(tmp_path, tools)
    tools.hold()
    place = node.place()
    starting = asyncio.create_task(node.start(place))
    async with asyncio.timeout(LIMIT_S):
        await until(lambda: node.pulls == 1)
        node.runtime.kill(place)
        with pytest.raises(StartRefused, match="killed before it was started"):
            await starting
    target = next(call[3] for call in tools.calls if call[1] == "pull")
    running = [p for p in psutil.process_iter(["cmdline"]) if target in (p.info["cmdline"] or ())]
    assert running == []
    assert list((node.work_dir / "images").glob("making-*")) == []


async def test_images_of_the_site_are_found_by_name_and_by_path(
    tmp_path: Path, tools: ImageTools
) -> None:
    root = open_way_to(tmp_path / "site" / "x").parent
    (root / "team").mkdir(parents=True)
    (root / "team" / "net:1.sif").write_text("net")
    node = Node1(tmp_path, tools, image_root=str(root))
    assert await node.run("echo", "a", image="docker://team/net:1") == "a"
    assert await node.run("echo", "b", image=str(root / "team" / "net:1.sif")) == "b"
    assert await node.run("echo", "c", image=str(tools.rootfs())) == "c"
    assert node.pulls == 0
    archive = root / "net.tar"
    archive.touch()
    if os.geteuid() != 0:
        assert await node.run("echo", "d", image=f"docker-archive:{archive}") == "d"
        assert node.pulls == 1
        return
    # Its content would be read with the rights of root.
    refused = str(await node.refusal(image=f"docker-archive:{archive}"))
    assert "the agent is root, and makes no image of a file of yours: convert it" in refused
    assert f"build net.sif docker-archive:{archive}) and name the .sif file" in refused
    assert node.pulls == 0


async def test_a_path_follows_the_rules_for_mounts(tmp_path: Path, tools: ImageTools) -> None:
    (tmp_path / "allowed").mkdir()
    node = Node1(tmp_path, tools, allowed_host_paths=[str(tmp_path / "allowed")])
    outside = await node.refusal(image=str(tools.rootfs()))
    assert f"environment.image: {tools.rootfs()} is not in allowed_host_paths of agent.yaml" in str(
        outside
    )
    missing = await node.refusal(image=str(tmp_path / "allowed" / "none.sif"))
    assert str(missing).endswith("none.sif does not exist on this machine")


@pytest.mark.skipif(os.geteuid() != 0, reason="only an agent that is root runs tasks of others")
async def test_an_image_that_the_tasks_user_cannot_read_is_refused(
    tmp_path: Path, tools: ImageTools
) -> None:
    node = Node1(tmp_path, tools)
    closed = tmp_path / "closed.sif"
    closed.write_text("net")
    closed.chmod(0o600)
    who = OsUser(uid=1234, gid=1234, user="ann", group="lab")
    refused = await node.refusal(image=str(closed), os_user=who)
    assert "is not readable for ann (1234), whom the task runs as" in str(refused)
    assert await node.run("sh", "-c", "id -un; id -u", os_user=who) == "ann\n1234"


async def test_tasks_without_an_image_of_their_own_are_processes_where_both_are_to_be_had(
    tmp_path: Path, tools: ImageTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setenv("CONTAINER_HOST", "unix:///nowhere")
    node = Node1(tmp_path, tools, container_runtime="auto", container_socket="/nowhere")
    assert node.runtime.name == "process, apptainer 1.3.4"
    await node.run("true", image="")
    await node.run("true", image=NET, image_is_default=True)
    assert node.pulls == 0
    await node.run("true", image=NET)
    assert node.pulls == 1


async def test_a_signal_reaches_the_task_and_its_output_is_complete(
    tmp_path: Path, tools: ImageTools
) -> None:
    node = Node1(tmp_path, tools)
    place = node.place()
    script = "trap 'echo leaving; exit 3' TERM; echo began; while :; do sleep 0.05; done"
    async with asyncio.timeout(LIMIT_S):
        assert await node.start(place, "sh", "-c", script)
        await until(lambda: "began" in log_of(place).splitlines())
        node.runtime.signal(place, 15)
        ended = await node.runtime.wait(place)
    assert ended.exit_code == 3
    assert log_of(place).splitlines()[-2:] == ["began", "leaving"]


async def test_the_bound_holds_and_spares_what_runs(tmp_path: Path, tools: ImageTools) -> None:
    node = Node1(tmp_path, tools, image_cache_gib=0)
    place = node.place()
    async with asyncio.timeout(LIMIT_S):
        assert await node.start(place, "sh", "-c", "while :; do sleep 0.05; done")
        images = node.work_dir / "images"
        assert len(list(images.glob("*.sif"))) == 1
        node.runtime.kill(place)
        await node.runtime.wait(place)
        await node.runtime.gc(place)
    assert list(images.glob("*.of-*")) == []
    first = {path.name for path in images.glob("*.sif")}
    await node.run("true", image=f"oras://{NET}")
    assert len(first | {path.name for path in images.glob("*.sif")}) == 2
    assert len(list(images.glob("*.sif"))) == 1


async def test_a_task_is_told_its_gpus_alone(tmp_path: Path, tools: ImageTools) -> None:
    gpus = tuple(
        Gpu(slot=n, index=n, kind=SlotKind.CUDA, uuid=f"GPU-{n}", nodes=(f"/dev/nvidia{n}",))
        for n in range(4)
    )
    machine = replace(NODE, gpus=gpus)
    looks = "echo $CUDA_VISIBLE_DEVICES; command -v nvidia-smi"
    with_two = await Node1(tmp_path, tools).run("sh", "-c", looks, node=machine, slot_ids=(1, 3))
    assert with_two.splitlines() == ["GPU-1,GPU-3", "/run/determined/bin/nvidia-smi"]
    assert any("--nv" in call for call in tools.calls)
    (tmp_path / "b").mkdir()
    before = len(tools.calls)
    without = await Node1(tmp_path / "b", tools).run("sh", "-c", looks, node=machine)
    assert without.splitlines() == ["", "/run/determined/bin/nvidia-smi"]
    assert not any("--nv" in call for call in tools.calls[before:])
