"""JSON that one release wrote and another reads back: what is not known is refused, not dropped.

A field that this release does not know was written by a newer one. Read without it, it would be lost at the next
write.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from windlass.base.errors import UnreadableDocument

T = TypeVar("T")


class StrictJson(Generic[T]):
    """Between values of a type (dataclasses, maps of them) and plain JSON data."""

    def __init__(self, type_: Any) -> None:
        self._writer: TypeAdapter[T] = TypeAdapter(type_)
        # A dataclass takes no configuration from outside, but inherits that of what contains it.
        inside: Any = GenericAlias(tuple, (type_,))
        self._reader: TypeAdapter[tuple[T]] = TypeAdapter(inside, config=ConfigDict(extra="forbid"))

    def dump(self, value: T, *, exclude: set[str] | None = None) -> Any:
        return self._writer.dump_python(value, mode="json", exclude=exclude)

    def load(self, data: Any, what: str) -> T:
        """`what` names the document in the error. Raises UnreadableDocument."""
        try:
            return self._reader.validate_python([data])[0]
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"][1:])
            raise UnreadableDocument(what, f"{field}: {first['msg']}") from None
