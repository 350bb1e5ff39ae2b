"""Which Python a task runs, and which folders have to be seen for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import (
    ContainerPaths,
    Interpreter,
    NodeFacts,
    task_environment,
)
from agent_bootstrap.agent.identity import own_identity
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes import task_root
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.interpreter import choose_python, find_interpreter
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import Bind, ContainerSpec
from windlass.base.errors import InvalidConfig
from windlass.base.formats.python_name import python_name

ME = own_identity()


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho never run here >&2; exit 9\n")
    path.chmod(0o755)
    return path


def virtualenv(folder: Path, base: Path, *lines: str) -> Path:
    """As venv, virtualenv and uv make them."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(base)
    (folder / "bin" / "python3").symlink_to("python")
    (folder / "pyvenv.cfg").write_text("\n".join([f"home = {base.parent}", *lines, ""]))
    return folder


def find(wanted: object) -> Interpreter:
    return find_interpreter(str(wanted), agent=ME, task=ME)


def spec(*binds: Bind, python: str = "", prologue: tuple[str, ...] = ()) -> ContainerSpec:
    return ContainerSpec(
        container_id="c",
        allocation_id="a",
        task_id="t",
        task_type="COMMAND",
        entrypoint=("{python}", "-P", "-m", "windlass.launch"),
        environment={},
        binds=binds,
        options=ContainerOptions(python=python, prologue=prologue),
    )


def test_of_a_virtualenv_itself_and_its_base_are_seen(tmp_path: Path) -> None:
    base = program(tmp_path / "uv" / "cpython-3.12" / "bin" / "python3.12")
    venv = virtualenv(tmp_path / "venv", base, "version_info = 3.12.4")
    expected = Interpreter(
        program=f"{venv}/bin/python3",
        folders=(str(tmp_path / "uv" / "cpython-3.12"), str(venv)),
        version="3.12",
    )
    assert find(venv) == expected
    assert find(venv / "bin" / "python3") == expected


def test_a_real_virtualenv_is_understood(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")]
    subprocess.run(command, check=True)
    found = find(tmp_path / "v")
    assert found.version == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert str(tmp_path / "v") in found.folders


def test_an_environment_of_conda_is_where_its_program_really_is(tmp_path: Path) -> None:
    real = program(tmp_path / "conda" / "bin" / "python3.11")
    (tmp_path / "conda" / "bin" / "python3").symlink_to("python3.11")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "py").symlink_to(real)
    for wanted in (tmp_path / "conda", tmp_path / "links" / "py"):
        assert find(wanted) == Interpreter(program=str(real), folders=(str(tmp_path / "conda"),))


def test_of_the_systems_python_nothing_more_is_seen() -> None:
    system = next(path for path in ("/usr/bin/python3", "/bin/sh") if Path(path).exists())
    assert find(system).folders == ()


def test_names_are_looked_up_but_not_in_the_agents_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Path(sys.executable).parent
    named = program(tmp_path / "bin" / "python3")
    monkeypatch.setenv("PATH", f"{ours}:{tmp_path}/bin:/usr/bin:/bin")
    assert find("python3").program == str(named)
    with pytest.raises(StartRefused, match=r"python9\.9 is not on the PATH of this machine"):
        find("python9.9")
    loaded = choose_python(spec(python="python9.9"), "", ["module load x"], agent=ME, task=ME)
    assert loaded.interpreter == Interpreter(program="python9.9")
    assert loaded.prologue == ("module load x",)


@pytest.mark.parametrize("wanted", ["missing", "folder", "file"])
def test_what_is_no_program_is_refused_in_one_sentence(wanted: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(StartRefused) as refused:
        find(tmp_path / wanted)
    assert str(refused.value).startswith(
        f"environment.python: {tmp_path / wanted} is no program on this machine that"
    )


def test_where_a_virtualenv_leads_is_told_if_that_cannot_be_reached(tmp_path: Path) -> None:
    away = tmp_path / "away" / "bin" / "python3.12"
    venv = virtualenv(tmp_path / "venv", away)
    for wanted in (venv, venv / "bin" / "python3"):
        with pytest.raises(StartRefused) as refused:
            find(wanted)
        assert f"may run (it leads to {away}): name an interpreter" in str(refused.value)


def test_links_in_a_circle_are_refused_too(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(StartRefused, match="is no program on this machine"):
        find(tmp_path / "a")


def test_a_whole_home_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    wanted = program(tmp_path / "bin" / "python3")
    with pytest.raises(StartRefused, match=f"needs the whole of {re.escape(str(tmp_path))} to be"):
        find(wanted)
    assert [path for path in ("/", "/root", "/home", "/home/ann") if task_root.is_shared(path)] == [
        *("/", "/root", "/home", "/home/ann")
    ]
    assert not task_root.is_shared("/home/ann/venv")


def test_what_a_user_chose_is_mounted_by_the_rules_for_users(tmp_path: Path) -> None:
    program(tmp_path / "py" / "bin" / "python3")
    folder = str(tmp_path / "py")
    bind = Bind(source=folder, target=folder, read_only=True)
    by_user = choose_python(spec(python=folder), "/elsewhere", (), agent=ME, task=ME)
    assert (by_user.user_binds, by_user.own_binds) == ((bind,), ())
    by_operator = choose_python(spec(), folder, (), agent=ME, task=ME)
    assert (by_operator.user_binds, by_operator.own_binds) == ((), (bind,))
    mounted = Bind(source=str(tmp_path), target=str(tmp_path))
    assert choose_python(spec(mounted, python=folder), "", (), agent=ME, task=ME).user_binds == ()


def test_the_prologue_of_the_agent_comes_first(tmp_path: Path) -> None:
    choice = choose_python(spec(prologue=("b",)), "", ("a",), agent=ME, task=ME)
    assert (choice.prologue, choice.interpreter, choice.is_foreign) == (("a", "b"), None, True)
    place = ContainerDir(tmp_path)
    place.rundet.mkdir()
    choice.write(place)
    assert (place.rundet / "prologue.sh").read_text().endswith("\nfi\na\nb\n")
    assert not choose_python(spec(), "", (), agent=ME, task=ME).is_foreign


def test_the_chosen_one_is_python3_and_has_windlass(tmp_path: Path) -> None:
    node = NodeFacts(master_url="http://m", agent_id="a", cluster_id="c", master_id="m")
    chosen = Interpreter(program="/v/bin/python3", version="3.12")
    found = task_environment(spec(), node, ContainerPaths(ContainerDir(tmp_path), True), chosen)
    assert found["PATH"].startswith("/run/determined/bin:/v/bin:")
    assert str(Path(sys.executable).parent) not in found["PATH"].split(":")
    assert found["DET_PYTHON_EXECUTABLE"] == "/v/bin/python3"
    packages = "/run/determined/pythonuserbase/lib/python3.12/site-packages"
    assert found["PIP_TARGET"] == packages
    assert found["PYTHONPATH"] == f"{packages}:/run/determined/packages"
    own = spec().model_copy(update={"environment": {"PYTHONPATH": "/mine"}})
    found = task_environment(own, node, ContainerPaths(ContainerDir(tmp_path), True), chosen)
    assert found["PYTHONPATH"] == "/mine:/run/determined/packages"


@pytest.mark.parametrize("given", ["", "python3.12", "/opt/py/bin/python3", "/home/ann/my env"])
def test_names_and_paths_are_taken(given: str) -> None:
    assert python_name(given) == given
    assert parse_options({"master_host": "m", "python": given}).python == given


@pytest.mark.parametrize(
    "given", ["bin/python3", "~/venv", "python3 -u", "-c", "/a/../b", "/a\nb", "$HOME/venv"]
)
def test_everything_else_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="Python"):
        python_name(given)
    with pytest.raises(InvalidConfig, match="python: "):
        parse_options({"master_host": "m", "python": given})
