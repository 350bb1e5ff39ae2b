"""Options as they are typed: a checked model, or all mistakes at once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from windlass.base.errors import InvalidConfig
from windlass.base.no_effect import mark_of
from windlass.deploy.cloud.options import CommonOptions

OptionsT = TypeVar("OptionsT", bound=CommonOptions)


def parse(model: type[OptionsT], given: Mapping[str, Any], what: str) -> OptionsT:
    """`given`: texts, switches and lists by the names of fields; None is not given. Raises InvalidConfig."""
    values = {name: value for name, value in given.items() if value is not None}
    try:
        options = model.model_validate(values)
        problems: dict[str, str] = {}
    except ValidationError as error:
        problems = dict(_problems(error))
        good = {name: value for name, value in values.items() if name not in problems}
        # What the others say of each other is told with what is wrong by itself.
        options = model.model_validate({**model.placeholders, **good})
    for name, why in options.conflicts():
        problems.setdefault(name, why)
    if problems:
        lines = [f"{option(name)}: {why}" for name, why in problems.items()]
        raise InvalidConfig(lines, what=what)
    return options


def warnings(options: CommonOptions, given: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each option without effect that was given."""
    for name, field in type(options).model_fields.items():
        mark = mark_of(field)
        if mark is not None and given.get(name) not in (None, False):
            yield f"{option(name)} has no effect: {mark.why}"


def option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _problems(error: ValidationError) -> Iterator[tuple[str, str]]:
    for each in error.errors(include_url=False, include_input=True):
        name, about = str(each["loc"][0]), each.get("ctx") or {}
        if each["type"] == "missing":
            yield name, "is missing"
        elif each["type"] == "value_error":
            yield name, str(about["error"])
        else:
            yield name, f'"{each["input"]}": {_in_words(each["type"], about)}'


def _in_words(kind: str, about: Mapping[str, Any]) -> str:
    match kind:
        case "greater_than_equal":
            return f"must be at least {about['ge']}"
        case "less_than_equal":
            return f"must be at most {about['le']}"
        case "int_parsing" | "int_type" | "int_from_float":
            return "must be a whole number"
        case "bool_parsing" | "bool_type":
            return "must be true or false"
        case "string_too_short":
            return "must not be empty"
        case _:
            return kind.replace("_", " ")
