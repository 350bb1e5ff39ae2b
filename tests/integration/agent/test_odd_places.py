"""Tasks whose agent or whose mounts are where the root of a task already has something else."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import Bind, ContainerSpec, ExitFailure, ExitRecord
from tests.jails import works_or_skip

NODE = NodeFacts(master_url="http://127.0.0.1:1", agent_id="a", cluster_id="c", master_id="m")
Made = Callable[[str], Path]


@pytest.fixture(params=["bubblewrap", "namespace"])
def jail(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    way: str = request.param
    works_or_skip(way, tmp_path)
    return way


@pytest.fixture
def folder_in() -> Iterator[Made]:
    """A new folder in a given one, removed at the end."""
    made: list[Path] = []

    def make(above: str) -> Path:
        if not os.access(above, os.W_OK):
            pytest.skip(f"only root makes folders in {above}")
        made.append(Path(tempfile.mkdtemp(prefix="windlass-test-", dir=above)))
        return made[-1]

    yield make
    for path in made:
        shutil.rmtree(path)


async def end_of(way: str, cluster: Path, *binds: Bind, command: str) -> tuple[ExitRecord, str]:
    """How a task of a cluster ends that has its data, and those of its agent, in `cluster`; and its output."""
    data, work_dir = cluster / "data", cluster / "data" / "agent"
    work_dir.mkdir(parents=True)
    (data / "master.db").write_text("secret")
    base = {"master_url": "http://127.0.0.1:1", "isolation": way, "work_dir": str(work_dir)}
    runtime = open_runtime("process", RuntimeSetup(options=parse_options(base)))
    rules = HostPaths(allowed=("/",), forbidden=(str(data),))
    spec = ContainerSpec(
        container_id="c1",
        allocation_id="t.1",
        task_id="t",
        task_type="COMMAND",
        entrypoint=("sh", "-c", command),
        environment={},
        binds=binds,
        options=ContainerOptions(host_paths=rules),
    )
    (work_dir / "containers").mkdir()
    place = ContainerDir(work_dir / "containers" / "c1")
    place.create(ContainerRecord.of(spec))
    await runtime.start(place, spec, NODE)
    return await runtime.wait(place), place.output.read_text()


@pytest.mark.parametrize(
    ("above", "mode"), [("/opt", 0o755), ("/opt", 0o700), ("/usr", 0o755), ("/etc", 0o755)]
)
async def test_a_cluster_below_a_folder_of_the_system_runs_tasks_and_stays_hidden(
    above: str, mode: int, jail: str, folder_in: Made
) -> None:
    cluster = folder_in(above)
    cluster.chmod(mode)
    ended, output = await end_of(jail, cluster, command=f"ls -A {cluster}/data 2>&-; echo done")
    assert ended.exit_code == 0, ended
    assert [line.split(" ", 2)[2] for line in output.splitlines()] == ["done"], "it looks empty"


@pytest.mark.parametrize("target", ["/var/tmp/deep/er", "/tmp/deep/er", "/var/run/deep/er"])
async def test_mounts_behind_links_of_the_tasks_root_are_made(
    target: str, jail: str, tmp_path: Path, folder_in: Made
) -> None:
    source = folder_in("/srv")
    source.chmod(0o755)
    (source / "file").write_text("given")
    bind = Bind(source=str(source), target=target)
    ended, output = await end_of(jail, tmp_path, bind, command=f"cat {target}/file")
    assert ended.exit_code == 0, ended
    assert "given" in output


async def test_a_mount_that_cannot_be_made_is_the_tasks_fault_in_one_sentence(
    jail: str, tmp_path: Path, folder_in: Made
) -> None:
    source = folder_in("/srv")
    source.chmod(0o755)
    bind = Bind(source=str(source), target="/etc/passwd/deep")
    ended, _ = await end_of(jail, tmp_path, bind, command="true")
    assert ended.failure is ExitFailure.TASK_ERROR
    assert "/etc/passwd/deep" in ended.message
