"""Lengths of training in the units of older Trial classes: exactly one of batches, records, epochs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Tag, model_serializer, model_validator

from master.core.expconf.models.schema import (
    TAG_MARK,
    NonNegative,
    Positive,
    Section,
    discriminated,
)

Unit: TypeAlias = Literal["batches", "records", "epochs"]
UNITS: tuple[Unit, ...] = ("batches", "records", "epochs")


class Length(Section):
    """An amount in one unit. Written with that unit only: the harness takes the single value it finds."""

    batches: NonNegative | None = None
    """In batches."""
    records: NonNegative | None = None
    """In records."""
    epochs: NonNegative | None = None
    """In epochs, of `records_per_epoch`."""

    @model_validator(mode="after")
    def _one_unit(self) -> Length:
        if sum(getattr(self, unit) is not None for unit in UNITS) != 1:
            raise ValueError('must have exactly one of "batches", "records" or "epochs"')
        return self

    @model_serializer
    def _only_the_unit(self) -> dict[str, int]:
        return {self.unit: self.amount}

    @property
    def unit(self) -> Unit:
        return next(unit for unit in UNITS if getattr(self, unit) is not None)

    @property
    def amount(self) -> int:
        return int(getattr(self, self.unit))


class MaxLength(Length):
    """The length of a whole trial: at least one unit."""

    batches: Positive | None = None
    """In batches."""
    records: Positive | None = None
    """In records."""
    epochs: Positive | None = None
    """In epochs, of `records_per_epoch`."""


def _form(value: Any) -> str | None:
    return TAG_MARK + ("length" if isinstance(value, dict | MaxLength) else "units")


LengthOrUnits: TypeAlias = Annotated[
    Annotated[MaxLength, Tag(TAG_MARK + "length")]
    | Annotated[NonNegative, Tag(TAG_MARK + "units")],
    discriminated(_form, "must be a length or an integer"),
]
"""`max_length` as Core API users write it: a bare integer has the unit that their own code means."""
