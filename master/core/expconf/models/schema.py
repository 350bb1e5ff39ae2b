"""What all configuration models share: closed frozen sections, and the scalar types of the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    model_validator,
)

MAX_INT = 2**63 - 1
DEFAULT_PRIORITY = 42
TAG_MARK = "\0"
"""Starts the tags of union members, so that they can be told from keys in the location of an error."""


class Section(BaseModel):
    """A map with fixed keys. Unknown keys are refused; null is the same as absent.

    A required key is required *eventually*: a partial document (a template) may lack it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: v for k, v in value.items() if v is not None or not cls._drops_null(k)}

    @classmethod
    def _drops_null(cls, key: str) -> bool:
        return key in cls.model_fields


class Item(Section):
    """A map whose required keys must be there at once: list items, hyperparameters, all-or-nothing sections."""

    @classmethod
    def _drops_null(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        return field is not None and not field.is_required()


def _whole(value: Any) -> Any:
    """1.0 and 1e3 are integers, as they are in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


T = TypeVar("T")
Items: TypeAlias = Annotated[tuple[T, ...], Strict(False)]
"""A list in the document, a tuple in the model."""

Integer: TypeAlias = Annotated[int, BeforeValidator(_whole), Field(ge=-MAX_INT - 1, le=MAX_INT)]
NonNegative: TypeAlias = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=MAX_INT)]
Positive: TypeAlias = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=MAX_INT)]
Priority: TypeAlias = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=99)]
Port: TypeAlias = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=65535)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
FreeMap: TypeAlias = dict[str, Any]
"""A map that is passed on and not looked into."""


def member_of(key: str, sentence: str) -> Discriminator:
    """Choose the member of a union by the text under `key`; `sentence` is said when none has that name.

    Members are tagged `TAG_MARK + name`.
    """

    def tag(value: Any) -> str | None:
        name = value.get(key) if isinstance(value, dict) else getattr(value, key, None)
        return TAG_MARK + name if isinstance(name, str) else None

    return discriminated(tag, sentence, key=key)


def discriminated(
    tag: Callable[[Any], str | None], sentence: str, *, key: str = ""
) -> Discriminator:
    """A union whose member `tag` chooses. With `key`, its absence in a map is "eventually required", not an error."""
    return Discriminator(tag, custom_error_type=f"{NO_MEMBER}{key}", custom_error_message=sentence)


NO_MEMBER = "no_member:"
"""Starts the error type for a union of which no member was named; the key that names one follows."""
