"""The keys of a configuration model: what the pages and the test of the marks read."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from windlass.base.no_effect import NoEffect, mark_of


@dataclass(frozen=True, slots=True)
class Key:
    """One field of a model, and of the section it belongs to."""

    name: str
    field: FieldInfo
    description: str
    mark: NoEffect | None
    sections: tuple[type[BaseModel], ...]
    """The models below it: several of a union, none of a leaf."""


def keys_of(model: type[BaseModel]) -> list[Key]:
    """In the order of the class."""
    descriptions = _attribute_docstrings(model)
    return [
        Key(
            name=field.alias or name,
            field=field,
            description=descriptions.get(name, ""),
            mark=mark_of(field),
            sections=tuple(_models(field.annotation)),
        )
        for name, field in model.model_fields.items()
    ]


def unmarked_leaves(model: type[BaseModel], at: str = "") -> Iterator[str]:
    """Dotted paths of all keys that should have an effect. Lists and maps of sections are as their items."""
    for key in keys_of(model):
        where = f"{at}{key.name}"
        if key.mark is not None:
            continue
        if not key.sections:
            yield where
        for section in key.sections:
            yield from unmarked_leaves(section, f"{where}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif isinstance(annotation, TypeAliasType):
        # A recursive type names itself by a string, which is not followed.
        yield from _models(annotation.__value__)
    elif get_origin(annotation) is Annotated:
        yield from _models(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType, tuple, dict):
        for argument in get_args(annotation):
            yield from _models(argument)


def _described(definition: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, below in pairwise(definition.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


@cache
def _attribute_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The strings under the fields of a class and of its bases, in one line each."""
    found: dict[str, str] = {}
    for class_ in reversed(model.__mro__):
        if not issubclass(class_, BaseModel) or class_ is BaseModel:
            continue
        for definition in ast.parse(textwrap.dedent(inspect.getsource(class_))).body:
            if isinstance(definition, ast.ClassDef):
                found |= _described(definition)
    return found
