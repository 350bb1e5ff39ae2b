"""Options that several commands share, as typer sees them and as the command gets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from windlass.base.option_groups import with_groups


@dataclass(frozen=True, kw_only=True)
class Place:
    host: Annotated[str, typer.Option("--host", "--on", help="Go there.")] = "here"
    port: int | None = None


app = typer.Typer()


@app.command()
@with_groups
def go(who: str, place: Place, fast: bool = False) -> None:
    """Go."""
    typer.echo(f"{who} {place} {fast}")


def test_each_field_of_a_group_is_an_option_of_the_command() -> None:
    said = CliRunner().invoke(app, ["ann", "--on", "there", "--port", "3", "--fast"])
    assert said.output == "ann Place(host='there', port=3) True\n"
    said = CliRunner().invoke(app, ["ann"])
    assert said.output == "ann Place(host='here', port=None) False\n"


def test_help_and_errors_are_those_of_the_options() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    assert "Go there." in shown
    assert "--place" not in shown
    refused = CliRunner().invoke(app, ["ann", "--port", "x"])
    assert refused.exit_code == 2
    assert "--port" in refused.output
