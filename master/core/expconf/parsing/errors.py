"""pydantic's complaints as the lines that users of this configuration language know.

`<config>.path.to[0].key: message`, one per problem, sorted. Unknown keys also name the nearest known one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from typing_extensions import TypeAliasType

from master.core.expconf.models.schema import NO_MEMBER, TAG_MARK, Item
from windlass.base.formats.durations import format_duration

_EXPECTED = {
    "int_type": "integer",
    "float_type": "number",
    "string_type": "string",
    "bool_type": "boolean",
    "tuple_type": "array",
    "list_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
}
_BOUNDS = {
    "greater_than_equal": (">=", "ge"),
    "greater_than": (">", "gt"),
    "less_than_equal": ("<=", "le"),
    "less_than": ("<", "lt"),
}
_MISSING = "missing"
MAX_PROBLEMS = 100
"""Explained of one document; then only their number is told."""
_LONGEST_LINE = 1000
"""Characters; what a user wrote is part of some lines."""
_LONGEST_NAME = 100
"""Characters of a key in a line, and of one that is compared with the known ones."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One complaint. `eventually` marks a missing key that a partial document may lack."""

    line: str
    eventually: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", clipped(self.line, _LONGEST_LINE))


def explain(error: ValidationError, model: type[BaseModel], *, root: str) -> list[ConfigProblem]:
    """Every problem of one validation of `model`, sorted by line."""
    found: dict[str, ConfigProblem] = {}
    item_gaps: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False):
        if len(found) + len(item_gaps) == MAX_PROBLEMS:
            line = f"{root}: {error.error_count()} problems; the first {MAX_PROBLEMS} are shown"
            found[line] = ConfigProblem(line)
            break
        at = tuple(part for part in detail["loc"])
        if detail["type"] == _MISSING and _is_item(model, at[:-1]):
            item_gaps.setdefault(path(root, at[:-1]), []).append(f'"{at[-1]}"')
            continue
        problem = _problem(detail, model, root)
        found[problem.line] = problem
    for where, keys in item_gaps.items():
        line = f"{where}: missing properties: {', '.join(keys)}"
        found[line] = ConfigProblem(line)
    return [found[line] for line in sorted(found)]


def first_problems(lines: Iterable[str]) -> list[str]:
    """So many of them as one error shows."""
    return list(islice(lines, MAX_PROBLEMS))


def path(root: str, location: Sequence[int | str]) -> str:
    """`("a", 0, "b")` as `<root>.a[0].b`; tags of unions are left out."""
    text = root
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not part.startswith(TAG_MARK):
            text += f".{clipped(part, _LONGEST_NAME)}"
    return text


def clipped(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "..."


def unknown_key(where: str, key: str, known: Sequence[str]) -> str:
    """The line for a key that has no place at `where`."""
    key = clipped(key, _LONGEST_NAME)
    near = nearest(key, known)
    hint = f'; did you mean "{near}"?' if near else ""
    return f'{where}: additionalProperties "{key}" not allowed{hint}'


def nearest(key: str, known: Sequence[str]) -> str | None:
    """The known name a typo most likely meant: one that extends it, else the closest by letters."""
    extended = [name for name in known if len(key) >= 3 and name.startswith(key) and name != key]
    if extended:
        return min(extended, key=len)
    by_lower = {name.lower().replace("-", "_"): name for name in known}
    close = get_close_matches(key.lower().replace("-", "_"), list(by_lower), n=1, cutoff=0.72)
    return by_lower[close[0]] if close else None


def _problem(detail: ErrorDetails, model: type[BaseModel], root: str) -> ConfigProblem:
    kind, at = detail["type"], detail["loc"]
    if kind == "extra_forbidden":
        owner = _model_at(model, at[:-1])
        known = (
            sorted(info.alias or name for name, info in owner.model_fields.items()) if owner else []
        )
        return ConfigProblem(unknown_key(path(root, at[:-1]), str(at[-1]), known))
    if kind == _MISSING:
        return ConfigProblem(
            f"{path(root, at[:-1])}: {at[-1]} is a required property", eventually=True
        )
    if kind.startswith(NO_MEMBER):
        return _no_member(detail, path(root, at))
    return ConfigProblem(f"{path(root, at)}: {_message(detail, model)}")


def _no_member(detail: ErrorDetails, where: str) -> ConfigProblem:
    key, given = detail["type"].removeprefix(NO_MEMBER), detail["input"]
    names_one = detail["msg"].startswith("must be one of ")
    if key and not isinstance(given, dict):
        written = f' "{clipped(given, _LONGEST_NAME)}"' if isinstance(given, str) else ""
        rule = f": its {key} {detail['msg']}" if names_one else ""
        return ConfigProblem(
            f"{where}: expected object or null, but got {json_kind(given)}{written}{rule}"
        )
    if key and given.get(key) is None:
        return ConfigProblem(f"{where}: {key} is a required property", eventually=True)
    if key and names_one:
        wrong = clipped(str(given[key]), _LONGEST_NAME)
        return ConfigProblem(f'{where}.{key}: {detail["msg"]}, not "{wrong}"')
    shape = detail["msg"].startswith("expected")
    got = f", but got {json_kind(given)}" if shape else ""
    return ConfigProblem(f"{where}: {detail['msg']}{got}")


def _message(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, given = detail["type"], detail["input"]
    context: Mapping[str, Any] = detail.get("ctx", {})
    nullable = _is_nullable(model, detail["loc"])
    if kind in _EXPECTED:
        expected = _EXPECTED[kind] + (" or null" if nullable else "")
        return f"expected {expected}, but got {json_kind(given)}"
    if kind in _BOUNDS:
        sign, key = _BOUNDS[kind]
        return f"must be {sign} {_number(context[key])} but found {_number(given)}"
    if kind == "literal_error":
        values = [f'"{v}"' for v in re.findall(r"'([^']*)'", context["expected"])]
        return "value must be one of " + ", ".join((["<nil>"] if nullable else []) + values)
    if kind == "value_error":
        return str(context["error"])
    return _less_common(kind, detail, context)


def _less_common(kind: str, detail: ErrorDetails, context: Mapping[str, Any]) -> str:
    if kind == "none_required":
        return f"expected null, but got {json_kind(detail['input'])}"
    if kind == "int_from_float":
        return "expected integer, but got number"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind == "string_pattern_mismatch":
        return f"does not match pattern {context['pattern']}"
    return detail["msg"]


def _number(value: object) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def json_kind(value: object) -> str:
    """The JSON type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


def _is_item(model: type[BaseModel], location: tuple[int | str, ...]) -> bool:
    owner = _model_at(model, location)
    return owner is not None and issubclass(owner, Item)


def _is_nullable(model: type[BaseModel], location: tuple[int | str, ...]) -> bool:
    """Whether null would have been taken as "not given" there."""
    keys = [p for p in location if not (isinstance(p, str) and p.startswith(TAG_MARK))]
    if not keys or isinstance(keys[-1], int):
        return False
    while isinstance(location[-1], str) and location[-1].startswith(TAG_MARK):
        location = location[:-1]
    owner = _model_at(model, location[:-1])
    field = _field(owner, keys[-1]) if owner else None
    if owner is None or field is None:
        return False
    return not (issubclass(owner, Item) and field.is_required())


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model that owns the keys at a location of an error."""
    annotation: Any = model
    for part in location:
        annotation = step(annotation, part)
    return as_model(annotation)


def as_model(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation is of, or the only one of its union."""
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    if isinstance(annotation, TypeAliasType):
        return as_model(annotation.__value__)
    if get_origin(annotation) is Annotated:
        return as_model(get_args(annotation)[0])
    if _is_union(annotation):
        models = [m for arg in get_args(annotation) if (m := as_model(arg)) is not None]
        return models[0] if len(models) == 1 else None
    return None


def step(annotation: Any, part: int | str) -> Any:
    """The annotation one key, index or union tag further in; None where that cannot be told."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = _field(annotation, part)
        return field.annotation if field else None
    if isinstance(annotation, TypeAliasType):
        return _tie(step(annotation.__value__, part), annotation)
    if get_origin(annotation) is Annotated:
        return step(get_args(annotation)[0], part)
    if _is_union(annotation):
        return _step_union(get_args(annotation), part)
    arguments = [a for a in get_args(annotation) if a is not Ellipsis]
    return arguments[-1] if arguments else None


def _field(model: type[BaseModel], key: int | str) -> FieldInfo | None:
    fields = model.model_fields
    return fields.get(str(key)) or next((f for f in fields.values() if f.alias == key), None)


def _tie(annotation: Any, alias: TypeAliasType) -> Any:
    """A recursive alias names itself by a string inside its generics; put the alias there."""
    arguments = get_args(annotation)
    if not arguments or arguments[-1] != alias.__name__:
        return annotation
    return get_origin(annotation)[(*arguments[:-1], alias)]


def _step_union(members: tuple[Any, ...], part: int | str) -> Any:
    if isinstance(part, str) and part.startswith(TAG_MARK):
        for member in members:
            if Tag(part) in getattr(member, "__metadata__", ()):
                return get_args(member)[0]
    steps = (step(member, part) for member in members)
    return next((found for found in steps if found is not None), None)


def _is_union(annotation: Any) -> bool:
    origin = get_origin(annotation)
    return origin is Union or (origin is not None and origin.__name__ == "UnionType")
