"""What requests are made of: bodies, query parameters, and the types of their fields.

Keys are accepted in camelCase and snake_case, unknown ones are ignored, and null is the same as nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from fastapi import Path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from master.api.http.middleware import camel
from master.core.jobs import HIGHEST_PRIORITY, LOWEST_PRIORITY
from master.store.paging import Page

MAX_ID = 2**31 - 1
MAX_DEPTH = 64
"""Nesting of free JSON (metrics, metadata): what is stored must be readable again."""

MAX_TEXT = 65_536
"""Characters of a description or a note, which lists show."""

RowId: TypeAlias = Annotated[int, Path(ge=0, le=MAX_ID)]


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=camel, populate_by_name=True, extra="ignore")


class Body(_Wire):
    """A JSON object."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data


class Query(_Wire):
    """Query parameters."""


class Word:
    """Annotates an enum member of the wire, which is answered without its prefix; empty if UNSPECIFIED."""

    def __init__(self, prefix: str, words: Collection[str]) -> None:
        self._prefix = prefix
        self._members = {prefix + word: word for word in words}
        self._unspecified = ("", "UNSPECIFIED", f"{prefix}UNSPECIFIED")

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return no_info_after_validator_function(self._word, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        members = ["", f"{self._prefix}UNSPECIFIED", *self._members]
        return {**handler(schema), "enum": members}

    def _word(self, value: str) -> str:
        if value in self._unspecified:
            return ""
        if value not in self._members:
            raise ValueError(f"{value[:80]!r} is not one of " + ", ".join(self._members))
        return self._members[value]


def _plain(value: Any) -> Any:
    """Refuses what could be stored but not be read again."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return value
    raise ValueError(f"is nested deeper than {MAX_DEPTH} levels")


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is before the year 1 or after 9999 in UTC") from None


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain NUL characters")
    return value


Text: TypeAlias = Annotated[str, AfterValidator(_no_nul)]
LongText: TypeAlias = Annotated[Text, Field(max_length=MAX_TEXT)]
FreeObject: TypeAlias = Annotated[dict[str, Any], AfterValidator(_plain)]
"""A JSON object of the user's own making."""
Time: TypeAlias = Annotated[datetime, AfterValidator(_aware)]
"""Always aware; a naive one is UTC."""
Int32: TypeAlias = Annotated[int, Field(ge=-(2**31), le=MAX_ID)]
Int64: TypeAlias = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Order: TypeAlias = Annotated[str, Word("ORDER_BY_", ("ASC", "DESC"))]


Priority: TypeAlias = Annotated[
    Int32, Field(json_schema_extra={"minimum": HIGHEST_PRIORITY, "maximum": LOWEST_PRIORITY})
]
"""Checked where it is set, which says what it means."""


def empty_is_unset(value: Any) -> Any:
    return None if value == "" else value


OptionalTime: TypeAlias = Annotated[Time | None, BeforeValidator(empty_is_unset)]


class Paging(Query):
    """`limit` 0: everything, unless the list says otherwise."""

    offset: Int32 = 0
    limit: Int32 = 0
    order_by: Order = ""

    def page(self, *, sort: str = "id", default_limit: int | None = None) -> Page:
        return Page(
            offset=self.offset,
            limit=self.limit or default_limit,
            descending=self.order_by == "DESC",
            sort=sort,
        )
