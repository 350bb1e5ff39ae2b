"""The notebook that JupyterLab shows first: where files are, what is kept of them, and when it all ends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from windlass.base.formats.durations import format_duration
from windlass.launch.services.idleness import Usage
from windlass.launch.services.notebook_settings import NotebookSettings
from windlass.launch.task_folder import is_own

README = "README.ipynb"
NOTEBOOK: Mapping[str, Any] = {
    "metadata": {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    },
    "nbformat": 4,
    "nbformat_minor": 5,
}
_UNUSED = {
    "kernels_or_terminals": "no kernel and no terminal is open",
    "kernel_connections": "no page is connected to a kernel",
    "activity": "no kernel computes, and no kernel or terminal does anything",
}


class Welcome:
    """One that was written. Raises FileExistsError where a file of that name is."""

    def __init__(self, folder: Path, task_id: str, settings: NotebookSettings) -> None:
        self.file = folder / README
        self._task_id = task_id
        self._settings = settings
        self._written = self._text()
        with self.file.open("x") as file:
            file.write(self._written)

    @property
    def page(self) -> str:
        """Where JupyterLab shows it."""
        return f"/lab/tree{quote(str(self.file))}"

    def tell_end(self, said: str) -> None:
        """Unless somebody has changed it meanwhile, or taken it away."""
        with suppress(OSError):
            if self.file.read_text() == self._written:
                self._written = self._text(said)
                self.file.write_text(self._written)

    def counted(self, usage: Usage) -> Usage:
        """To have read it is no use of the notebook: else its kernel would keep that for ever."""
        return usage if self._has_code() else usage.without(str(self.file).removeprefix("/"))

    def _has_code(self) -> bool:
        """Whether somebody works in it: it is written without. What cannot be read is theirs."""
        try:
            cells = json.loads(self.file.read_text())["cells"]
            return any(cell["cell_type"] == "code" for cell in cells)
        except (OSError, ValueError, KeyError, TypeError):
            return True

    def _text(self, end: str = "") -> str:
        lines = _lines(self.file.parent, self._task_id, self._settings, end)
        cell = {
            "cell_type": "markdown",
            "id": "welcome",
            "metadata": {},
            "source": "\n".join(lines),
        }
        return json.dumps({**NOTEBOOK, "cells": [cell]}, indent=1)


def write_welcome(folder: Path, task_id: str, settings: NotebookSettings) -> Welcome | None:
    """None: the folder is the user's, or has a file of that name."""
    try:
        return Welcome(folder, task_id, settings) if is_own(folder) else None
    except FileExistsError:
        return None


def _lines(folder: Path, task_id: str, settings: NotebookSettings, end: str) -> Iterator[str]:
    yield f"# {settings.description}\n"
    yield f"- **Files** of this notebook are in `{folder}`, which is deleted when it ends."
    if settings.kept:
        kept = ", ".join(f"`{path}`" for path in settings.kept)
        yield f"- **Kept** is what you save in {kept}."
    else:
        yield (
            "- **Kept** is nothing: no folder of yours is mounted. "
            "`det notebook start -v /shared/you:/data` mounts one."
        )
    if settings.idle_timeout:
        yield (
            f"- **Idle**: it is ended when it has not been used for {format_duration(settings.idle_timeout)} "
            f"(`idle_timeout`): no page of it is open, and {_UNUSED[settings.idle_type]}."
        )
    else:
        yield "- **Idle**: it has no `idle_timeout`, and holds its slots until it is ended."
    yield (
        f"- **To end it**: File > Shut Down, or `det notebook kill {task_id}`. "
        "To close the page does not end it."
    )
    if end:
        yield f"- **Time**: {end}."
