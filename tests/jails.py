"""What tests of contained tasks share: which ways work here, and folders that tasks of another user can reach."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.runtimes.probe import find_isolation
from windlass.base.errors import InvalidConfig

_problems: dict[Any, str] = {}
"""Of each way that was tried; empty: it works. To try costs more than many a test."""


def works_or_skip(isolation: Any, work_dir: Path) -> None:
    """Skip with the reason when this kernel, user or machine cannot contain tasks so."""
    if isolation not in _problems:
        try:
            find_isolation(isolation, work_dir)
            _problems[isolation] = ""
        except InvalidConfig as error:
            _problems[isolation] = str(error)
    if problem := _problems[isolation]:
        pytest.skip(problem)


def open_way_to(path: Path) -> Path:
    """`path`, after making the private test folders above it passable for other users, as /srv or /home are."""
    top = Path(tempfile.gettempdir()).resolve()
    for parent in path.resolve().parents:
        if parent.is_relative_to(top) and parent != top and parent.exists():
            parent.chmod(parent.stat().st_mode | 0o011)
    return path


def virtualenv(path: Path) -> Path:
    """One that other users may run: on the system's Python, as the one that runs the tests may be private."""
    system = Path("/usr/bin/python3")
    if not system.exists():
        pytest.skip(f"no {system} to make a virtualenv for tasks of")
    path = open_way_to(path)
    subprocess.run([system, "-m", "venv", "--without-pip", str(path)], check=True)
    return path
