"""The page of the command line: every command with its arguments and options, as `--help` tells them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from windlass.cli.groups import Unloaded, load_operator_commands
from windlass.cli.main import DetGroup, app


def commands_page() -> str:
    lines = [
        "# Command line",
        "",
        "`det` and `windlass` are the same program. Options of `det` itself stand before the command.",
        "",
        *_parameters(typer.main.get_command(app)),
        *_command("version", typer.main.get_command(app).get_command(None, "version")),  # type: ignore[attr-defined]
    ]
    for name, lazy in sorted(DetGroup.lazy.items()):
        also = f" (also: `det {lazy.alias}`)" if lazy.alias else ""
        lines += [f"## det {name}", "", f"{lazy.help}{also}", ""]
        lines += _group(name, lazy.load())
    for name in sorted(DetGroup.operators):
        lines += [f"## det {name}", ""]
        lines += _command(name, load_operator_commands(name)[name])
    return "\n".join(lines)


def _group(path: str, command: Any) -> Iterator[str]:
    """Of a group its commands; click's classes are duck-typed, as typer brings its own copy."""
    if isinstance(command, Unloaded):
        command = command.load()
    if not hasattr(command, "list_commands"):
        yield from _command(path, command)
        return
    for name in command.list_commands(None):
        yield from _group(f"{path} {name}", command.get_command(None, name))


def _command(path: str, command: Any) -> Iterator[str]:
    arguments = [_argument(p) for p in command.params if p.param_type_name == "argument"]
    yield from (f"### `{' '.join(['det', path, *arguments])}`", "")
    yield from (_one_line(command.help), "")
    yield from _parameters(command)


def _parameters(command: Any) -> Iterator[str]:
    rows = [_row(parameter) for parameter in command.params]
    shown = [row for row in rows if row is not None]
    if shown:
        yield from ("| | |", "| --- | --- |", *shown, "")


def _row(parameter: Any) -> str | None:
    if getattr(parameter, "hidden", False):
        return None
    text = _one_line(parameter.help)
    if parameter.param_type_name == "argument":
        return _cells(_argument(parameter), text)
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return _cells(names, " ".join(part for part in (text, _variable(parameter)) if part))


def _variable(parameter: Any) -> str:
    return f"Variable: `{parameter.envvar}`." if parameter.envvar else ""


def _argument(parameter: Any) -> str:
    name = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
