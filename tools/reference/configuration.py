"""A page for each configuration: its keys with type, default and meaning, a table for each section."""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import orjson
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from master.core.expconf.models.environment import CONTAINERS, PROCESSES, SHM_SIZES
from master.core.expconf.models.schema import MAX_INT
from tools.reference.keys import Key, keys_of
from windlass.base.formats.durations import format_duration

_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    dict: "map",
    timedelta: 'duration ("90s", "1h30m")',
    Path: "path",
    SecretStr: "text",
    type(None): "null",
    Any: "any",
}
_ONLY = {
    CONTAINERS: "In containers only.",
    PROCESSES: "For processes only.",
    SHM_SIZES: "Not with Apptainer, Singularity and Enroot, which choose it.",
}
_MAX_SHOWN = 60
"""Longer defaults say nothing in a table."""


def configuration_page(title: str, introduction: str, model: type[BaseModel]) -> str:
    return "\n".join([f"# {title}", "", introduction, "", *_section(model, "")])


def _section(model: type[BaseModel], at: str) -> Iterator[str]:
    keys = keys_of(model)
    yield from ("| key | type | default | meaning |", "| --- | --- | --- | --- |")
    for key in keys:
        cells = (f"`{key.name}`", _type_of(key), _default_of(key), _meaning(key))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""
    for key in keys:
        for section in key.sections:
            name = _tag(section)
            yield f"## `{at}{key.name}`" + (f": {name}" if name and len(key.sections) > 1 else "")
            yield ""
            about = _first_line(section) if section.__doc__ else ""
            yield from (" ".join(part for part in (about, _warning(key)) if part), "")
            yield from _section(section, f"{at}{key.name}.")


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _tag(model: type[BaseModel]) -> str:
    """The value by which a member of a union is chosen."""
    for key in keys_of(model):
        if key.name in ("name", "type") and get_origin(key.field.annotation) is Literal:
            return str(get_args(key.field.annotation)[0])
    return ""


def _meaning(key: Key) -> str:
    return " ".join(part for part in (key.description, _warning(key)) if part)


def _warning(key: Key) -> str:
    if key.mark is None:
        return ""
    return _ONLY.get(key.mark.unless) or f"**No effect**: {key.mark.why}."


def _type_of(key: Key) -> str:
    return _type_text(key.field.annotation) + _bounds(key.field.metadata)


def _type_text(annotation: Any) -> str:
    if isinstance(annotation, TypeAliasType):
        return "section"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_text(arguments[0]) + _bounds(_flat(arguments[1:]))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        texts = [_type_text(a) for a in arguments if a is not type(None)]
        return " or ".join(dict.fromkeys(texts))
    if origin is tuple:
        return f"list of {_type_text(arguments[0])}"
    if origin is dict:
        inner = _type_text(arguments[1])
        return "map" if inner == "any" else f"map of {inner}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return _WORDS.get(annotation, "text")


def _flat(metadata: tuple[Any, ...]) -> list[Any]:
    return [
        part
        for item in metadata
        for part in (item.metadata if isinstance(item, FieldInfo) else [item])
    ]


def _bounds(metadata: list[Any]) -> str:
    parts = []
    for item in metadata:
        match item:
            case Ge(ge=bound):
                parts.append(f">= {bound}")
            case Gt(gt=bound):
                parts.append(f"> {bound}")
            case Le(le=bound) if bound != MAX_INT:
                parts.append(f"<= {bound}")
            case Lt(lt=bound):
                parts.append(f"< {bound}")
    shown = [part for part in parts if str(-MAX_INT - 1) not in part]
    return f" {', '.join(shown)}" if shown else ""


def _default_of(key: Key) -> str:
    if key.field.is_required():
        return "required"
    factory = key.field.default_factory
    if factory is not None:
        return "`{}`" if factory is dict else "computed"
    value = key.field.default
    if value is None or value == "":
        return ""
    if key.sections:
        return ""
    if isinstance(value, timedelta):
        return f"`{format_duration(value)}`"
    text = orjson.dumps(value, default=str).decode()
    return f"`{text}`" if len(text) <= _MAX_SHOWN else "see the code"
