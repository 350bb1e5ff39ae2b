"""The experiment configuration on its way to the master: the file's own text, unless something is overridden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from windlass.base.errors import InvalidConfig


def read_config(path: Path, overrides: Sequence[str]) -> str:
    """The YAML text to send. Without overrides it is the file, comments included. Raises InvalidConfig."""
    try:
        text = path.read_text()
        document = yaml.safe_load(text)
    except UnicodeDecodeError:
        raise InvalidConfig([f"{path}: is not a text file"]) from None
    except yaml.YAMLError as problem:
        raise InvalidConfig([f"{path}: {_where(problem)}"]) from None
    if not isinstance(document, dict):
        raise InvalidConfig([f"{path}: must hold `key: value` lines"])
    if not overrides:
        return text
    for override in overrides:
        _apply(document, override)
    return yaml.safe_dump(document, sort_keys=False)


def _apply(document: dict[str, Any], override: str) -> None:
    key, separator, value = override.partition("=")
    path = key.split(".")
    if not separator or not all(path):
        raise InvalidConfig([f"--config {override}: write it as some.key=value"])
    place = document
    for name in path[:-1]:
        inner = place.setdefault(name, {})
        if not isinstance(inner, dict):
            raise InvalidConfig([f"--config {override}: {name} has no keys below it"])
        place = inner
    try:
        place[path[-1]] = yaml.safe_load(value)
    except yaml.YAMLError as problem:
        raise InvalidConfig([f"--config {override}: {_where(problem)}"]) from None


def _where(problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    what = getattr(problem, "problem", None) or "not valid YAML"
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else str(what)
