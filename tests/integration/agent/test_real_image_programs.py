"""Apptainer, Singularity and Enroot themselves, where they are installed, on an unpacked image."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fakes.image_tools import PYTHON, ImageTools
from tests.integration.agent.test_agent_image_commands import Node1
from tests.jails import open_way_to

pytestmark = pytest.mark.slow
PROGRAMS = ("sh", "id", "cat", "env", "touch", "python3")


@pytest.fixture(params=["apptainer", "singularity", "enroot"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node1:
    program: str = request.param
    if shutil.which(program) is None:
        pytest.skip(f"not installed: {program}")
    if program == "enroot" and os.geteuid() == 0:
        pytest.skip("Enroot's containers belong to one user, and that is not root")
    images = tmp_path / "images"
    unpacked_image(images / "tiny")
    open_way_to(images / "x")
    tools = ImageTools(tmp_path)
    return Node1(tmp_path, tools, container_runtime=program, image_root=str(images))


def unpacked_image(folder: Path) -> None:
    """Some programs of this machine, with their libraries."""
    for below in ("bin", "dev", "etc", "opt", "proc", "run", "sys", "tmp", "usr/bin", "var/tmp"):
        (folder / below).mkdir(parents=True)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\n")
    (folder / "etc/image").write_text("tiny\n")
    asked = [PYTHON, "-ISc", "import sysconfig; print(sysconfig.get_path('stdlib'))"]
    standard = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    left = shutil.ignore_patterns(
        "__pycache__", "dist-packages", "site-packages", "test", "config-*"
    )
    shutil.copytree(standard, folder / standard.removeprefix("/"), ignore=left, symlinks=True)
    for name in PROGRAMS:
        program = PYTHON if name == "python3" else shutil.which(name)
        assert program is not None
        shutil.copy(program, folder / ("usr/bin" if name == "python3" else "bin") / name)
        listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True)
        for library in re.findall(r"(/\S+)", listed.stdout):
            copy = folder / library.removeprefix("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)


async def test_a_task_is_its_user_in_the_image(node: Node1) -> None:
    looks = "cat /etc/image; id -u; touch $HOME/a /tmp/b && echo wrote; pwd"
    said = await node.run("sh", "-c", looks, image="tiny")
    uid = os.geteuid() or 65530
    assert said.splitlines() == ["tiny", str(uid), "wrote", "/run/determined/workdir"]


async def test_a_task_has_its_variables_and_none_of_the_agent(
    node: Node1, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_SECRET", "hush")
    said = await node.run("sh", "-c", "env", image="tiny")
    assert "OWN=1" in said.splitlines()
    assert "hush" not in said
