"""Configuration files and `--config` overrides, as they are sent to the master."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.base.errors import InvalidArgument, InvalidConfig
from windlass.cli.output.text import notice
from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from yaml import YAMLError


def read_config(path: Path, overrides: Sequence[str]) -> str:
    """The YAML text to send. Without overrides it is the file, comments included. Raises InvalidConfig."""
    text, _ = _load(path)
    return with_overrides(text, overrides)


def with_overrides(text: str, overrides: Sequence[str]) -> str:
    """A configuration that is no file. Without overrides it is the text as it is. Raises InvalidConfig."""
    if not overrides:
        return text
    import yaml

    document = yaml.safe_load(text) or {}
    for override in overrides:
        _apply(document, override)
    return yaml.safe_dump(document, sort_keys=False)


def config_of(text: str) -> dict[str, Any]:
    """What `read_config` has read."""
    import yaml

    return dict(yaml.safe_load(text))


def read_settings(path: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    """What the file, if there is one, and the overrides say together. Raises InvalidConfig."""
    document = {} if path is None else _load(path)[1]
    for override in overrides:
        _apply(document, override)
    return document


def tell_warnings(kind: str, answer: Json) -> None:
    """Those of the answer to a submission of an experiment or a command."""
    known = {
        "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED": (
            f"the {kind} requests more slots than the cluster has now: it waits for capacity"
        )
    }
    for warning in [*(answer.get("warnings") or []), *(answer.get("configWarnings") or [])]:
        notice(f"warning: {known.get(warning, warning)}")


@contextmanager
def naming(path: Path | None) -> Iterator[None]:
    """What the master refuses was in this file: say so."""
    try:
        yield
    except InvalidArgument as refused:
        if path is None:
            raise
        raise InvalidArgument(f"{path}: {refused.message}") from None


def _load(path: Path) -> tuple[str, dict[str, Any]]:
    import yaml

    try:
        text = path.read_text()
        document = yaml.safe_load(text)
    except UnicodeDecodeError:
        raise InvalidConfig([f"{path}: not a text file"]) from None
    except yaml.YAMLError as problem:
        raise InvalidConfig([f"{path}: {_where(problem)}"]) from None
    if not isinstance(document, dict):
        raise InvalidConfig([f"{path}: expected a YAML mapping, but found {_kind(document)}"])
    return text, document


def _apply(document: dict[str, Any], override: str) -> None:
    import yaml

    key, separator, value = override.partition("=")
    path = key.split(".")
    if not separator or not all(path):
        raise InvalidConfig(
            [f"--config {override}: expected KEY=VALUE, for example searcher.metric=loss"]
        )
    place = document
    for name in path[:-1]:
        inner = place.setdefault(name, {})
        if not isinstance(inner, dict):
            raise InvalidConfig([f"--config {override}: {name} is not a mapping"])
        place = inner
    try:
        place[path[-1]] = yaml.safe_load(value)
    except yaml.YAMLError as problem:
        raise InvalidConfig([f"--config {override}: {_where(problem)}"]) from None


def _kind(document: object) -> str:
    kinds = {list: "a list", type(None): "nothing"}
    return kinds.get(type(document), "a single value")


def _where(problem: YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    what = getattr(problem, "problem", None) or "not valid YAML"
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else str(what)
