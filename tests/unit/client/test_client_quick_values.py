"""Plain values of options are taken without pydantic, and all others as typer takes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from client_scripted_master import ScriptedMaster
from typer import core
from typer.testing import CliRunner, Result

from tests.fakes.client_cli import with_an_experiment
from windlass.cli import quick_values

PROGRAM = (
    "import sys\n"
    "from windlass.cli.main import run\n"
    "sys.argv = ['det', *sys.argv[1:]]\n"
    "try:\n    run()\nexcept SystemExit as end:\n    assert not end.code, end\n"
    "heavy = {'pydantic', 'yaml', 'pathspec', 'rich', 'boto3', 'master', 'provisioner'} & set(sys.modules)\n"
    "assert not heavy, heavy\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("e", "list"), ("e", "list", "--json"), ("--help",)])
def test_lists_load_only_what_they_use(master: ScriptedMaster, words: tuple[str, ...]) -> None:
    with_an_experiment(master)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "-m", master.url, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "digits" in done.stdout or "experiment" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "group",
    ["e", "cmd", "d", "fleet", "job", "slot", "trial", "user", "doctor", "version", "d local"],
)
@pytest.mark.parametrize("is_completion", [True, False])
def test_help_and_completion_load_nothing_of_a_connection(group: str, is_completion: bool) -> None:
    completing = {
        "_DET_COMPLETE": "complete_bash",
        "COMP_WORDS": f"det {group} li",
        "COMP_CWORD": str(len(group.split()) + 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{'pydantic'", "{'httpx2', 'pydantic'")]
        + ([] if is_completion else [*group.split(), "--help"]),
        env=os.environ | (completing if is_completion else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert is_completion or "Usage: " in done.stdout


def command(*words: str) -> Result:
    app = typer.Typer()

    @app.command()
    def show(
        number: Annotated[int, typer.Argument()],
        at_most: Annotated[int | None, typer.Option(min=1)] = None,
        name: str = "x",
        path: Path | None = None,
        more: Annotated[list[str] | None, typer.Option()] = None,
        share: float | None = None,
    ) -> None:
        typer.echo(repr((number, at_most, name, path, more, share)))

    return CliRunner().invoke(app, words)


WORDS = (
    ("7",),
    ("007", "--name", "", "--more", "a", "--more", "b"),
    ("٣",),
    (" 7 ",),
    ("1_000",),
    ("--", "-7"),
    ("x",),
    ("1.5",),
    ("7", "--at-most", "0"),
    ("7", "--at-most", "3", "--path", "/tmp/x", "--share", "0.5", "--name", "é"),
    ("7", "--share", "much"),
    (),
)


@pytest.mark.parametrize("words", WORDS)
def test_values_are_what_typer_makes_of_them(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = command(*words)
    monkeypatch.setattr(
        core._TyperParameter, "get_runtime_param", core._TyperParameter.get_runtime_param
    )
    quick_values.install()
    found = command(*words)
    assert (found.exit_code, found.output) == (expected.exit_code, expected.output)
