"""What has to be on the node or in the image before a task can start."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from windlass.base.errors import InvalidArgument
from windlass.base.formats.trial_class import PACKAGE, is_trial_class, needs_package


def require_python(environ: Mapping[str, str]) -> None:
    """Whether a name in `environment.python` is on PATH is known after the prologue only. Raises InvalidArgument."""
    name = environ.get("DET_PYTHON_EXECUTABLE")
    if name and shutil.which(name, path=environ.get("PATH")) is None:
        raise InvalidArgument(
            f"environment.python: {name} is not on PATH here, after the prologue and the startup hooks"
        )


def require_package(entrypoint: Any) -> None:
    """A Trial class without its package would end with a traceback about another module. Raises InvalidArgument."""
    if is_trial_class(entrypoint) and not _has_module("python3", PACKAGE):
        raise InvalidArgument(needs_package(entrypoint))


def require_module(python: str, module: str, called: str) -> None:
    """Raises InvalidArgument with the ways to have it."""
    if shutil.which(python) is None:
        raise InvalidArgument(f"{python} is not on PATH")
    if not _has_module(python, module):
        raise InvalidArgument(
            f"{called} is not installed for {python}: use an image that has it, name a Python that has it in "
            f"environment.python, or install it in a startup hook (pip install {module})"
        )


def _has_module(python: str, module: str) -> bool:
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    try:
        return subprocess.run([python, "-c", probe], check=False).returncode == 0
    except FileNotFoundError:
        return False
