"""Tasks with a Python that is not the agent's."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_scripted_master import ScriptedMaster, spec
from conftest import RunAgent

import agent_bootstrap
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import ExitFailure
from tests.jails import virtualenv

SHOW = """
echo prefix $(python3 -c 'import sys; print(sys.prefix)') $(python -c 'import sys; print(sys.prefix)')
python3 -c 'import sys, windlass.core; print("core", windlass.core.__name__, sys.flags.safe_path)'
python3 -c 'import pydantic' 2>&1 | tail -n 1
echo "said $DET_PYTHON_EXECUTABLE"
"""


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return virtualenv(tmp_path_factory.mktemp("environments") / "mine")


@pytest.mark.parametrize("chosen_by", ["user", "operator"])
async def test_a_task_runs_in_the_virtualenv_that_was_chosen(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, venv: Path, chosen_by: str
) -> None:
    python = {"user": str(venv), "operator": ""}[chosen_by]
    settings = {} if chosen_by == "user" else {"python": str(venv)}
    async with run_agent(**settings):
        options = ContainerOptions(python=python)
        await master.start(spec(cid, "sh", "-c", SHOW, options=options))
        verdict = await master.exit_of(cid)
    assert verdict.exit_code == 0, (verdict, master.text(cid))
    assert master.text(cid) == [
        f"prefix {venv} {venv}",
        "core windlass.core False",
        "ModuleNotFoundError: No module named 'pydantic'",
        f"said {venv}/bin/python3",
    ]


async def test_a_python_that_is_none_is_told_in_one_sentence(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, venv: Path
) -> None:
    async with run_agent():
        options = ContainerOptions(python=f"{venv}/pyvenv.cfg")
        await master.start(spec(cid, "true", options=options))
        verdict = await master.exit_of(cid)
    assert verdict.failure is ExitFailure.TASK_ERROR
    assert verdict.message.startswith(f"environment.python: {venv}/pyvenv.cfg is no program")


@pytest.mark.parametrize("isolation", ["bubblewrap", "namespace"], indirect=True)
async def test_of_a_checkout_only_the_packages_are_seen(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    checkout = Path(agent_bootstrap.__file__).parents[1]
    if checkout.name == "site-packages":
        pytest.skip("the agent is installed, and runs from no checkout")
    async with run_agent():
        await master.start(spec(cid, "ls", "-A", str(checkout)))
        await master.exit_of(cid)
    seen = set(master.text(cid))
    assert {"agent_bootstrap", "windlass"} <= seen
    assert not seen & {".git", "master", "tests", "pyproject.toml"}
