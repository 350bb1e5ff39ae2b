"""From the text of a file to its model, or all that is wrong with it, each with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from windlass.base.errors import InvalidConfig
from windlass.base.formats.documents import MalformedDocument, Place, read_with_lines
from windlass.sdk.cluster_file.model import ClusterFile

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SHOWN = 60
"""Characters of a value in an error."""
_SECRET = "password"  # noqa: S105 - the name of a key
_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "string_type": "text (in quotes, if it looks like a number)",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}


@dataclass(frozen=True, slots=True)
class Problem:
    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read: its name, and where what stands."""

    name: str
    lines: Mapping[Place, int]

    def refuse(self, problems: Sequence[Problem]) -> None:
        """Raises InvalidConfig, unless there are none."""
        if problems:
            placed = [(self.line(one.place), one) for one in problems]
            placed.sort(key=lambda each: each[0])
            raise InvalidConfig(
                [f"line {line}: {dotted(one.place)}: {one.text}" for line, one in placed],
                what=self.name,
            )

    def line(self, place: Place) -> int:
        """Of the place, or of what it is in."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def dotted(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the file"


def read_file(path: Path) -> tuple[ClusterFile, Source]:
    """Raises InvalidConfig, OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidConfig(["not a text file"], what=str(path)) from None
    return read_text(text, str(path))


def read_text(text: str, name: str) -> tuple[ClusterFile, Source]:
    """Raises InvalidConfig."""
    try:
        document, lines = read_with_lines(text)
    except MalformedDocument as error:
        raise InvalidConfig([str(error)], what=name) from None
    source = Source(name, lines)
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise InvalidConfig(
            [f"line 1: expected a mapping, but found {_shown(document)}"], what=name
        )
    document = _without_nothing(document)
    try:
        file = ClusterFile.model_validate(document)
    except ValidationError as error:
        source.refuse([_problem(one, document) for one in error.errors(include_url=False)])
        raise
    source.refuse(list(_same_names(file)))
    return file, source


def _without_nothing(document: dict[str, Any]) -> dict[str, Any]:
    """`ann:` alone is ann with nothing said about it; lists become what a frozen model holds."""
    named = ("users", "groups", "workspaces", "resource_pools", "templates", "roles")
    return {
        key: _named(value, whole=key == "roles") if key in named else {} if value is None else value
        for key, value in document.items()
    }


def _named(section: Any, *, whole: bool = False) -> Any:
    """`whole`: nothing said would mean nobody, and must be written."""
    if section is None:
        return {}
    if not isinstance(section, dict) or whole:
        return section
    return {name: _filled(one) for name, one in section.items()}


def _filled(one: Any) -> Any:
    if one is None:
        return {}
    if isinstance(one, dict):
        return {
            key: _named(value, whole=key == "roles") if key in ("projects", "roles") else value
            for key, value in one.items()
        }
    return one


def _same_names(file: ClusterFile) -> Iterator[Problem]:
    """Those that the master takes for one."""
    places: list[tuple[Place, Mapping[str, Any]]] = [
        (("users",), file.users),
        (("workspaces",), file.workspaces),
        (("roles",), file.roles),
    ]
    for name, workspace in file.workspaces.items():
        places += [
            (("workspaces", name, "projects"), workspace.projects),
            (("workspaces", name, "roles"), workspace.roles),
        ]
    for place, section in places:
        seen: dict[str, str] = {}
        for name in section:
            if (other := seen.setdefault(name.lower(), name)) != name:
                yield Problem(
                    (*place, name),
                    f'"{name}" and "{other}" are one name in letters of another case: remove one',
                )


def _problem(detail: ErrorDetails, document: Mapping[str, Any]) -> Problem:
    place: Place = detail["loc"]
    kind, given = detail["type"], detail["input"]
    if _SECRET in place[:-1] or place[-1:] == (_SECRET,):
        given = "a value that is not shown"
    if kind == "extra_forbidden":
        known = _keys(place[:-1])
        near = get_close_matches(str(place[-1]), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(known)}"
        return Problem(place, f"there is no such key: {hint}")
    if kind == "missing":
        return Problem(place[:-1], f"{place[-1]} is missing: give it")
    if place[-1:] == (_SECRET,) and kind in ("model_type", "dict_type", "model_attributes_type"):
        return Problem(
            place, "a password is never in this file: give {env: VARIABLE} or {file: PATH}"
        )
    if kind in _EXPECTED:
        return Problem(place, f"expected {_EXPECTED[kind]}, but found {_shown(given)}")
    if kind == "value_error":
        return Problem(place, str(detail.get("ctx", {}).get("error", detail["msg"])))
    return Problem(place, f"{detail['msg']}, but found {_shown(given)}")


def _keys(place: Place) -> list[str]:
    """The keys of the section at a place."""
    model: type[BaseModel] | None = ClusterFile
    for part in place:
        if model is None:
            return []
        field = model.model_fields.get(str(part))
        model = _model_of(field.annotation) if field is not None else model
    return list(model.model_fields) if model is not None else []


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The only model that a field holds, itself or by name."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = map(_model_of, getattr(annotation, "__args__", ()))
    return next((one for one in found if one is not None), None)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
