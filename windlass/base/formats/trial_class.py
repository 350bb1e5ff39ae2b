"""Entrypoints of the form `module:TrialClass`, which the published package runs."""

from __future__ import annotations

import re

PACKAGE = "determined"
_TRIAL_CLASS = re.compile(r"[A-Za-z_][\w./]*:[A-Za-z_]\w*")


def is_trial_class(entrypoint: object) -> bool:
    return isinstance(entrypoint, str) and _TRIAL_CLASS.fullmatch(entrypoint) is not None


def needs_package(entrypoint: str) -> str:
    """The one sentence about it."""
    return (
        f"the entrypoint {entrypoint} is a Trial class, which needs the package `{PACKAGE}` in the Python of the "
        "task: install it there (on the agents' machines, or in the image), or make the entrypoint a program"
    )
