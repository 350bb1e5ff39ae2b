"""A container of the agent's own before it joins: by a real Podman, and by the stand-in for Apptainer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent_bootstrap.agent import cli
from agent_bootstrap.agent.checks import checks
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.protocol import Slot, SlotKind
from tests.fakes.image_tools import image_tools
from tests.podman import Podman, service_or_skip
from windlass.base.errors import InvalidConfig

NODE = NodeFacts(master_url="http://master:8080", agent_id="trial", cluster_id="c", master_id="m")
REFUSES = """#!/bin/sh
case " $* " in
  *" create "*) echo "runc create failed: unable to apply cgroup configuration" >&2; exit 1 ;;
esac
exec runc "$@"
"""


def opened(name: str, work_dir: Path, node: NodeFacts = NODE, **more: Any) -> Runtime:
    given = {"master_url": "http://127.0.0.1:1", "agent_id": "trial", **more}
    options = parse_options({**given, "work_dir": str(work_dir)})
    return open_runtime(name, RuntimeSetup(options=options, trial_on=node))


def problem_of(name: str, work_dir: Path, **more: Any) -> str:
    with pytest.raises(InvalidConfig) as refused:
        opened(name, work_dir, **more)
    (problem,) = refused.value.problems
    return problem


@contextmanager
def without_a_runtime_that_works(podman: Podman) -> Iterator[Path]:
    """The socket of an engine on the same storage that answers, and starts nothing."""
    with tempfile.TemporaryDirectory(prefix="wlpod-") as folder:
        program = Path(folder) / "runc"
        program.write_text(REFUSES)
        program.chmod(0o755)
        broken = replace(podman, socket=Path(folder) / "podman.sock", runtime=str(program))
        with service_or_skip(broken):
            yield broken.socket


def test_podman_that_starts_containers_is_taken_and_nothing_runs_afterwards(
    podman: Podman, tmp_path: Path
) -> None:
    before = podman.run("ps", "--all", "--quiet")
    for _ in range(2):  # the second one finds the image
        runtime = opened("podman", tmp_path, container_socket=str(podman.socket))
        assert runtime.name.startswith("podman ")
    assert podman.run("ps", "--all", "--quiet") == before
    assert list((tmp_path / "containers").iterdir()) == []
    named = podman.run("images", "--format", "{{.Repository}}").splitlines()
    assert named.count("localhost/windlass-trial") == 1


def test_podman_that_starts_none_is_refused_with_its_own_words(
    podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with without_a_runtime_that_works(podman) as socket:
        problem = problem_of("podman", tmp_path / "a", container_socket=str(socket))
        assert problem.startswith("container_runtime: podman ")
        assert "cannot start a container here: cannot start the container: " in problem
        assert "unable to apply cgroup configuration" in problem
        assert "set container_runtime: process" in problem
        assert "\n" not in problem
        file = tmp_path / "agent.yaml"
        keys = {"container_runtime": "podman", "container_socket": str(socket)}
        file.write_text(json.dumps({**keys, "work_dir": str(tmp_path / "b")}))
        words = ["run", "--master", "http://127.0.0.1:1", "--config-file", str(file)]
        done = CliRunner().invoke(cli.app, words)
        assert done.exit_code == 2, done.output
        assert "unable to apply cgroup configuration" in done.output
        auto = opened("auto", tmp_path / "c", container_socket=str(socket))
        assert auto.name == "process"
        assert any("unable to apply cgroup configuration" in note for note in auto.notes)
        monkeypatch.setenv("CONTAINER_HOST", f"unix://{socket}")
        (check,) = [check for check in checks() if check.name == "agent: containers"]
        assert check.status == "warning"
        assert "unable to apply cgroup configuration" in check.found
    assert list((tmp_path / "a/containers").iterdir()) == []


def test_an_engine_that_cannot_give_the_gpus_is_told_of_and_taken_by_auto_alone(
    podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Slot(id=0, kind=SlotKind.CUDA, uuid="GPU-no-such")
    node, socket = replace(NODE, slots=(gpu,)), str(podman.socket)
    with pytest.raises(InvalidConfig, match="cannot start a container here"):
        opened("podman", tmp_path / "a", node, container_socket=socket)
    auto = opened("auto", tmp_path / "b", node, container_socket=socket)
    assert auto.name.startswith("process, podman ")
    assert any("cannot start a container here" in note for note in auto.notes)
    image_tools(tmp_path / "bin", monkeypatch)
    auto = opened("auto", tmp_path / "c", node, container_socket=socket)
    assert auto.name == "process, apptainer 1.3.4", "one that gives them comes first"


def test_a_program_that_starts_none_is_refused_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = image_tools(tmp_path / "bin", monkeypatch)
    assert opened("apptainer", tmp_path / "a").name == "apptainer 1.3.4"
    assert all(call[1] in ("--version", "exec") for call in tools.calls), "nothing is pulled"
    tools.break_down()
    problem = problem_of("apptainer", tmp_path / "a")
    assert "apptainer 1.3.4 cannot start a container here: " in problem
    assert "while mounting image: operation not permitted" in problem
