"""Configurations on their way to the master: the file's own text, unless something is overridden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from windlass.base.errors import InvalidConfig


def read_config(path: Path, overrides: Sequence[str]) -> str:
    """The YAML text to send. Without overrides it is the file, comments included. Raises InvalidConfig."""
    text, document = _load(path)
    if not overrides:
        return text
    for override in overrides:
        _apply(document, override)
    return yaml.safe_dump(document, sort_keys=False)


def read_settings(path: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    """What the file, if there is one, and the overrides say together. Raises InvalidConfig."""
    document = {} if path is None else _load(path)[1]
    for override in overrides:
        _apply(document, override)
    return document


def _load(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text()
        document = yaml.safe_load(text)
    except UnicodeDecodeError:
        raise InvalidConfig([f"{path}: is not a text file"]) from None
    except yaml.YAMLError as problem:
        raise InvalidConfig([f"{path}: {_where(problem)}"]) from None
    if not isinstance(document, dict):
        raise InvalidConfig([f"{path}: must hold `key: value` lines"])
    return text, document


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
