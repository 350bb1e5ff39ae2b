"""How a table's columns are declared, so that type checkers know them on the class and on a row.

SQLModel reads `Mapped[int]` as `int`. Type checkers see SQLAlchemy's own `Mapped`: `Trial.id` is a column expression
(`Trial.id.in_(ids)`, `Trial.created_at.desc()`), `trial.id` is an int, and a column that does not exist is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, BigInteger, Column, Integer
from sqlmodel import Field, UTCDateTime

if TYPE_CHECKING:
    from sqlalchemy.orm import Mapped as Mapped
else:

    class Mapped:
        """`Mapped[T]` is T at run time."""

        def __class_getitem__(cls, type_: Any) -> Any:
            return type_


NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

BIG_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite finds rows by an INTEGER primary key without a further index; its integers are big anyway."""


def json_column(*, nullable: bool = False) -> Any:
    return Field(sa_column=Column(JSON(none_as_null=True), nullable=nullable))


def time_column(*, nullable: bool = True, index: bool = False) -> Any:
    """An aware UTC time: naive values are refused, and what is read is aware on both databases."""
    default: dict[str, Any] = {"default": None} if nullable else {}
    return Field(sa_column=Column(UTCDateTime(), nullable=nullable, index=index), **default)
