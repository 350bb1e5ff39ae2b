"""The image recipes: built for real, on a base of this machine's files, since no registry is to be reached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_bootstrap.agent.cli import app
from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.images import RECIPES, recipe
from agent_bootstrap.protocol import ContainerSpec
from tests.podman import BARE, IMAGE, Podman

NODE = NodeFacts(master_url="http://master:8080", agent_id="a", cluster_id="c", master_id="m")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_printed_and_needs_no_file_beside_it(name: str) -> None:
    printed = CliRunner().invoke(app, ["recipe", name])
    assert printed.exit_code == 0
    assert printed.stdout == recipe(name)
    steps = [line.split()[0] for line in printed.stdout.splitlines() if line[:1].isupper()]
    assert steps[:2] == ["ARG", "FROM"]
    assert not {"COPY", "ADD", "USER", "ENTRYPOINT"} & set(steps)


@pytest.mark.parametrize("name", RECIPES)
def test_a_base_without_python_fails_while_it_is_built(podman: Podman, name: str) -> None:
    code, said = built(podman, name, BARE, "localhost/none:1")
    assert code != 0
    # What the shell says is lost now and then by the engine; 127 is its word for a command that is not there.
    assert "RUN python3 -c" in said, said
    assert "exit status 127" in said, said


@pytest.mark.parametrize("name", RECIPES)
async def test_tasks_run_in_what_is_built(podman: Podman, tmp_path: Path, name: str) -> None:
    image = f"localhost/recipe-{name}:1"
    code, said = built(podman, name, IMAGE, image)
    assert code == 0, said
    options = parse_options(
        {
            "master_url": "http://127.0.0.1:1",
            "work_dir": str(tmp_path),
            "agent_id": f"recipe-{name}",
            "container_socket": str(podman.socket),
        }
    )
    runtime = open_runtime("podman", RuntimeSetup(options=options))
    place = ContainerDir(tmp_path / "c1")
    place.create(ContainerRecord(container_id="c1", allocation_id="t.1", task_id="t", boot_id="b"))
    program = "import os, windlass.core; open('made', 'w'); print('ran as', os.getuid())"
    spec = ContainerSpec(
        container_id="c1",
        allocation_id="t.1",
        task_id="t",
        task_type="COMMAND",
        entrypoint=("{python}", "-c", program),
        environment={},
        options=ContainerOptions(image=image),
    )
    async with asyncio.timeout(90):
        await runtime.start(place, spec, NODE)
        ended = await runtime.wait(place)
        await runtime.gc(place)
    assert ended.exit_code == 0, place.output.read_text()
    assert "ran as 65530" in place.output.read_text()


def built(podman: Podman, name: str, base: str, tag: str) -> tuple[int, str]:
    """Exit code and output. Nothing is installed: that would need package mirrors."""
    words = ["--build-arg", f"BASE={base}", "--build-arg", "APT=", "--build-arg", "PIP="]
    return podman.build(tag, words, recipe(name))
