"""Configuration keys that are accepted, so that existing files load, but change nothing.

They are marked where they are declared: `Annotated[bool, NoEffect("metrics are not exported yet")] = True`. Whoever
gives such a key is told at once; the reference pages list the marks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A mark of a field, or of a whole section. `why` completes "KEY has no effect: "."""

    why: str
    unless: str = ""
    """What a cluster may have that makes the key count, e.g. "containers"."""
    together: bool = False
    """Keys of one section with this mark are told in one sentence."""


def mark_of(field: FieldInfo) -> NoEffect | None:
    return next((item for item in field.metadata if isinstance(item, NoEffect)), None)


def keys_without_effect(
    model: BaseModel, given: Mapping[str, Any], at: str = "", having: Collection[str] = ()
) -> Iterator[str]:
    """One sentence for each marked key of the document `given`, from which `model` was made. Null is not given.

    `having`: what the cluster has of what marks name as `unless`.
    """
    fields = type(model).model_fields
    names = {field.alias or name: name for name, field in fields.items()}
    told: set[NoEffect] = set()
    for key, value in given.items():
        if value is None or key not in names:
            continue
        where = f"{at}.{key}" if at else key
        mark = mark_of(fields[names[key]])
        if mark is not None and mark.unless not in having:
            *more, last = [
                other
                for other, its in given.items()
                if other in names and its is not None and mark_of(fields[names[other]]) == mark
            ]
            if not more or not mark.together:
                yield f"{where} has no effect: {mark.why}"
            elif mark not in told:
                told.add(mark)
                yield f"{at}: {', '.join(more)} and {last} have no effect: {mark.why}"
        else:
            yield from _below(getattr(model, names[key]), value, where, having)


def _below(value: Any, given: Any, where: str, having: Collection[str]) -> Iterator[str]:
    if isinstance(value, BaseModel) and isinstance(given, Mapping):
        yield from keys_without_effect(value, given, where, having)
    elif isinstance(value, dict) and isinstance(given, Mapping):
        for key, item in value.items():
            yield from _below(item, given.get(key), f"{where}.{key}", having)
    elif isinstance(value, tuple) and isinstance(given, list):
        for index, (item, own) in enumerate(zip(value, given, strict=False)):
            yield from _below(item, own, f"{where}[{index}]", having)
