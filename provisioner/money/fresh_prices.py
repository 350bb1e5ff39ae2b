"""Prices that vendors' price APIs gave: each with its day, over the table of the price book, kept in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from master.core.machines import Market
from windlass.base.files import write_atomic

FILE_NAME = "prices-of-vendors.json"
"""In the data folder."""


class FreshPrice(BaseModel):
    """Of one machine, or of one GPU that is added to machines, for an hour."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cloud: str
    region: str
    name: str
    """The instance type or the accelerator, as the cloud calls it."""
    market: Market = Market.ON_DEMAND
    usd_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    as_of: date
    source: Annotated[str, Field(min_length=1)]
    """Who said so."""

    @property
    def key(self) -> Key:
        return self.cloud, self.region, self.name, self.market


Key: TypeAlias = tuple[str, str, str, Market]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    prices: tuple[FreshPrice, ...] = ()


@runtime_checkable
class KnowsPrices(Protocol):
    """A provider that can ask its vendor."""

    @property
    def name(self) -> str: ...

    async def list_prices(self, today: date) -> Sequence[FreshPrice]:
        """Of what its pools buy; what the vendor does not name is left out. Raises WindlassError, OSError."""
        ...


def keyed(prices: Iterable[FreshPrice]) -> Mapping[Key, FreshPrice]:
    return {price.key: price for price in prices}


def read(folder: Path) -> Mapping[Key, FreshPrice]:
    """Nothing, where there is no such file. Raises ValueError for one that is malformed."""
    try:
        content = (folder / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ValueError(f"{FILE_NAME} cannot be read: {error.strerror}") from None
    try:
        return keyed(_File.model_validate_json(content).prices)
    except ValidationError as error:
        raise ValueError(f"{FILE_NAME} is malformed: {error.errors()[0]['msg']}") from None


def write(folder: Path, prices: Mapping[Key, FreshPrice]) -> None:
    """Blocking."""
    document = _File(prices=tuple(prices[key] for key in sorted(prices)))
    write_atomic(folder / FILE_NAME, document.model_dump_json(indent=1).encode(), durable=True)
