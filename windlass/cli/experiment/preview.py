"""`det experiment create --preview`: what would become of a submission."""

from __future__ import annotations

from pathlib import Path

import typer

from windlass.cli.config_file import tell_warnings
from windlass.cli.experiment.preview_search import TRIALS
from windlass.cli.fleet.plan import print_start
from windlass.cli.output.columns import Column, Table
from windlass.cli.output.text import notice, print_json
from windlass.sdk.wire import Json

_WRITTEN = "SUBMITTED"
_SOURCES = {
    "TEMPLATE": "template {}",
    "POLICY": "config policy of {}",
    "POOL": "defaults of pool {}",
    "WORKSPACE": "checkpoint storage of the workspace",
    "CLUSTER": "checkpoint storage of the cluster",
}


def print_preview(found: Json, config_file: Path, *, as_json: bool) -> None:
    """Exits with 1 if it would be refused."""
    if as_json:
        print_json(found)
    else:
        for problem in found["problems"]:
            notice(f"error: {_where(problem, config_file)}: {problem['message']}")
    if found["problems"]:
        raise typer.Exit(1)
    if as_json:
        return
    tell_warnings("experiment", found)
    if found["trials"]:
        TRIALS.print(found["trials"])
    if given := [one for one in found["origins"] or [] if one["source"] != _WRITTEN]:
        ORIGINS.print([{**one, "value": _at(found["config"], one["path"])} for one in given])
    print_start(found["plan"])


def _where(problem: Json, config_file: Path) -> str:
    line = f"{config_file}:{problem['line']}" if problem["line"] else str(config_file)
    return f"{line}: {problem['path']}" if problem["path"] else line


def _at(config: Json, path: str) -> object:
    found: object = config
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _source(origin: Json) -> str:
    return _SOURCES.get(origin["source"], "{}").format(origin["name"])


ORIGINS = Table(Column("Key", "path"), Column("Value", "value"), Column("From", _source))
