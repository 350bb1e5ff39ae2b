"""What machines cost by list, and what is in them: a dated table that comes with the package, or a newer one.

A price is never guessed to be 0. Where the table has none, the dearest known price of that size stands for it, and
`Price.note` says so; where it has that of another region, a rough factor is applied, and the note says that.
Overrides and discounts of master.yaml come last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from master.core.expconf.models.schema import Number, Section
from provisioner.money.budgets import Usd
from provisioner.money.fresh_prices import FreshPrice, Key
from provisioner.types import Market
from windlass.base.errors import InvalidConfig
from windlass.base.files import write_atomic

BUNDLED = Path(__file__).with_name("price_book.json")
FILE_NAME = "prices.json"
"""In the data folder: a newer table than the bundled one."""
MAX_FILE_BYTES = 16 * 1024 * 1024
STALE_AFTER = timedelta(days=180)
OVERRIDDEN = "override"
LIST = "price book"
BELIEVED_FACTOR = 10.0
"""What a vendor says that is so many times dearer or cheaper than the table is a mistake; spot may be cheaper still."""
HOURS_PER_MONTH = 730.0

_Usd = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[Number, Field(ge=0, lt=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MachineType(_Part):
    """One instance type, or one kind of GPU that is added to machines."""

    family: str = ""
    gpus: Annotated[int, Field(ge=0)] = 0
    gpu_model: str = ""
    gpu_memory_mib: int | None = None
    """Of one GPU."""
    cpus: float | None = None
    memory_mib: int | None = None
    network_gbps: float | None = None
    usd_per_hour: Mapping[str, _Usd] = Field(default_factory=dict)
    """On demand, by region."""
    as_of: date | None = None
    """Of its prices, where they are older than the table."""
    spot_usd_per_hour: Mapping[str, _Usd] = Field(default_factory=dict)


class _Cloud(_Part):
    reference_region: str
    region_factors: Mapping[str, _Usd] = Field(default_factory=dict)
    """Roughly what a region costs beside the reference region."""
    other_regions_factor: _Usd = 1.0
    types: Mapping[str, MachineType]
    accelerators: Mapping[str, MachineType] = Field(default_factory=dict)
    """GPUs that are paid for beside their machine."""
    disk_usd_per_gib_month: Mapping[str, _Usd] = Field(default_factory=dict)
    """By the type of disk, in the reference region. Empty: as the bundled table says."""


class PriceTable(_Part):
    """The file, as it is bundled and as a refresh writes it."""

    format: Literal[1]
    as_of: date
    source: Annotated[str, Field(min_length=1)]
    clouds: Mapping[str, _Cloud]


class PriceOverride(Section):
    """What is paid for some offers instead of their list price. Keys that are not given match any."""

    cloud: str = ""
    """aws or gcp."""
    region: str = ""
    """As the cloud calls it."""
    instance_type: str = ""
    """As the cloud calls it."""
    market: Market | None = Field(default=None, strict=False)
    """reserved, capacity_block, spot, on_demand or queued."""
    usd_per_hour: Usd | None = None
    """The price of a machine."""
    discount: Share | None = None
    """Or the share taken off the list price: 0.2 is a fifth less."""

    @model_validator(mode="after")
    def _one_of_both(self) -> PriceOverride:
        if (self.usd_per_hour is None) == (self.discount is None):
            raise ValueError("give either usd_per_hour or discount")
        return self

    def covers(self, cloud: str, region: str, instance_type: str, market: Market) -> bool:
        return (
            self.cloud in ("", cloud)
            and self.region in ("", region)
            and self.instance_type in ("", instance_type)
            and self.market in (None, market)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    usd_per_hour: float
    as_of: date
    note: str = ""
    """What is uncertain about it; empty: as the list says."""
    source: str = ""
    """Of which list it is."""

    @property
    def origin(self) -> str:
        """Where it is from, and of when, for people."""
        if self.note == OVERRIDDEN:
            return "prices.overrides"
        return f"{self.source} of {self.as_of}" + (f": {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """A table with what the operator says of it. Immutable."""

    table: PriceTable
    overrides: Sequence[PriceOverride] = ()
    """The first that covers an offer counts."""
    file: Path = BUNDLED
    fresh: Mapping[Key, FreshPrice] = field(default_factory=dict, repr=False)
    """What vendors said since; used where the table is not newer."""
    _dearest: dict[tuple[str, int], float] = field(default_factory=dict, repr=False, compare=False)

    def machine(self, cloud: str, instance_type: str) -> MachineType | None:
        known = self.table.clouds.get(cloud)
        return None if known is None else known.types.get(instance_type)

    def accelerator(self, cloud: str, name: str) -> MachineType | None:
        """GPUs that are paid for beside their machine."""
        known = self.table.clouds.get(cloud)
        return None if known is None else known.accelerators.get(name)

    def find(self, instance_type: str) -> tuple[str, MachineType] | None:
        """The cloud that sells that type, and its facts; None if no cloud does."""
        for name, cloud in self.table.clouds.items():
            if instance_type in cloud.types:
                return name, cloud.types[instance_type]
        return None

    def disk_usd_per_hour(self, cloud: str, region: str, disk_type: str, gib: float) -> float:
        """Of a disk that is kept. One whose type is not known counts as the dearest that is."""
        section = self.table.clouds.get(cloud)
        by_type = (section and section.disk_usd_per_gib_month) or _bundled_disks(cloud)
        usd = by_type.get(disk_type) or max(by_type.values())
        return gib * usd * self._factor(cloud, region) / HOURS_PER_MONTH

    def doubt(self, cloud: str, region: str, name: str, market: Market, usd: float) -> str:
        """Why a vendor's price is not believed; empty: it may be so, or the table does not know that machine."""
        known = self.machine(cloud, name) or self.accelerator(cloud, name)
        if known is None or not known.usd_per_hour:
            return ""
        listed, _ = self._in_region(cloud, region, known)
        cheapest = BELIEVED_FACTOR * (BELIEVED_FACTOR if market is Market.SPOT else 1.0)
        if listed / cheapest <= usd <= listed * BELIEVED_FACTOR:
            return ""
        return (
            f"{usd:.4g} USD per hour for {name} in {region} is not believed: the price book of {self.table.as_of} has "
            f"{listed:.4g}"
        )

    def reference_region(self, cloud: str) -> str:
        return self.table.clouds[cloud].reference_region

    def price(
        self,
        cloud: str,
        region: str,
        instance_type: str,
        market: Market = Market.ON_DEMAND,
        *,
        gpus: int = 0,
        accelerator: str = "",
    ) -> Price:
        """What one such machine costs an hour. Never 0 unless an override says so.

        `gpus`: how many it has, where the table does not know the type; or how many of `accelerator` are added.
        """
        rule = self._rule(cloud, region, instance_type, market)
        if rule is not None and rule.usd_per_hour is not None:
            return Price(usd_per_hour=rule.usd_per_hour, as_of=self.table.as_of, note=OVERRIDDEN)
        as_of, source = self._as_of(cloud, instance_type), LIST
        notes: list[str] = []
        fresh = self._fresh(cloud, region, instance_type, market)
        if fresh is not None:
            usd, as_of, source = fresh.usd_per_hour, fresh.as_of, fresh.source
        else:
            usd, notes = self._listed(cloud, region, instance_type, market, gpus=gpus)
        if accelerator:
            more, why = self._accelerators(cloud, region, accelerator, gpus, market)
            usd, notes = usd + more, [*notes, *why]
        if rule is not None and rule.discount is not None:
            usd *= 1.0 - rule.discount
            notes.append(f"discount of {rule.discount:.0%}")
        note = "; ".join(dict.fromkeys(notes))
        return Price(usd_per_hour=usd, as_of=as_of, note=note, source=source)

    def is_set(self, cloud: str, region: str, name: str, market: Market) -> bool:
        """The operator says what it costs: no list counts, nor what its vendor says."""
        rule = self._rule(cloud, region, name, market)
        return rule is not None and rule.usd_per_hour is not None

    def _rule(self, cloud: str, region: str, name: str, market: Market) -> PriceOverride | None:
        return next((x for x in self.overrides if x.covers(cloud, region, name, market)), None)

    def _fresh(self, cloud: str, region: str, name: str, market: Market) -> FreshPrice | None:
        found = self.fresh.get((cloud, region, name, market))
        return None if found is None or found.as_of < self._as_of(cloud, name) else found

    def _as_of(self, cloud: str, name: str) -> date:
        machine = self.machine(cloud, name) or self.accelerator(cloud, name)
        return (machine and machine.as_of) or self.table.as_of

    def age(self, today: date) -> timedelta:
        return today - self.table.as_of

    def warnings(self, today: date, stale_after: timedelta = STALE_AFTER) -> list[str]:
        """What an operator should know of the table."""
        if self.age(today) <= stale_after:
            return []
        return [
            f"the price book of {self.table.as_of} is {self.age(today).days} days old ({self.file.name}): "
            "import a newer one with windlass master prices import, or give prices.overrides"
        ]

    def _listed(
        self, cloud: str, region: str, instance_type: str, market: Market, *, gpus: int
    ) -> tuple[float, list[str]]:
        machine = self.machine(cloud, instance_type)
        if machine is None or not machine.usd_per_hour:
            if machine is not None and (alike := self._alike(cloud, machine)):
                usd, note = alike
                return usd * self._factor(cloud, region), [note]
            size = gpus if machine is None else machine.gpus
            usd = self._dearest_of(cloud, size)
            what = "without GPUs" if not size else f"with {size} GPU{'s' * (size != 1)}"
            note = f"no price is known: counted as the dearest known machine {what}"
            factor = self._factor(cloud, region)
            return usd * factor, [note]
        if market is Market.SPOT and (usd := machine.spot_usd_per_hour.get(region, 0.0)):
            return usd, []
        fresh = self._fresh(cloud, region, instance_type, Market.ON_DEMAND)
        usd, notes = self._in_region(cloud, region, machine)
        if fresh is not None:
            usd, notes = fresh.usd_per_hour, []
        if market is Market.SPOT:
            notes.append("no spot price is known: counted at the on-demand price")
        return usd, notes

    def _alike(self, cloud: str, machine: MachineType) -> tuple[float, str] | None:
        """By the dearest known price of one such GPU, in that cloud if it has one."""
        if not machine.gpus or not machine.gpu_model:
            return None
        for section in (self.table.clouds[cloud], *self.table.clouds.values()):
            known = [
                (max(other.usd_per_hour.values()) / other.gpus, name)
                for name, other in section.types.items()
                if other.gpus and other.gpu_model == machine.gpu_model and other.usd_per_hour
            ]
            if known:
                usd, name = max(known)
                return (
                    usd * machine.gpus,
                    f"no price is known: counted as {machine.gpus} {machine.gpu_model} of {name}",
                )
        return None

    def _accelerators(
        self, cloud: str, region: str, accelerator: str, gpus: int, market: Market
    ) -> tuple[float, list[str]]:
        fresh = self._fresh(cloud, region, accelerator, market)
        if fresh is not None:
            return gpus * fresh.usd_per_hour, []
        section = self.table.clouds.get(cloud)
        known = section.accelerators if section is not None else {}
        if accelerator in known and known[accelerator].usd_per_hour:
            usd, notes = self._in_region(cloud, region, known[accelerator])
            return gpus * usd, notes
        note = (
            f"no price of {accelerator} is known: counted as the dearest known machine of that size"
        )
        return self._dearest_of(cloud, gpus) * self._factor(cloud, region), [note]

    def _in_region(self, cloud: str, region: str, machine: MachineType) -> tuple[float, list[str]]:
        usd = machine.usd_per_hour.get(region)
        if usd is not None:
            return usd, []
        reference = self.table.clouds[cloud].reference_region
        base = machine.usd_per_hour.get(reference) or max(machine.usd_per_hour.values())
        factor = self._factor(cloud, region)
        return base * factor, [f"estimated from {reference} ({factor:g} times its price)"]

    def _factor(self, cloud: str, region: str) -> float:
        section = self.table.clouds.get(cloud)
        if section is None:
            return 1.0
        return section.region_factors.get(region, section.other_regions_factor)

    def _dearest_of(self, cloud: str, gpus: int) -> float:
        """The dearest known machine of that size, in that cloud if it has one; by GPU where none has so many."""
        known = self._dearest.get((cloud, gpus))
        if known is None:
            sections = [self.table.clouds[cloud]] if cloud in self.table.clouds else []
            known = self._dearest[cloud, gpus] = _dearest(sections, gpus) or _dearest(
                list(self.table.clouds.values()), gpus
            )
        return known


@cache
def _bundled_disks(cloud: str) -> Mapping[str, float]:
    """No disk is free because a table is silent about them."""
    return read_table(BUNDLED).clouds[cloud].disk_usd_per_gib_month


def _dearest(clouds: Sequence[_Cloud], gpus: int) -> float:
    priced = [
        (machine.gpus, max(machine.usd_per_hour.values()))
        for cloud in clouds
        for machine in cloud.types.values()
        if machine.usd_per_hour
    ]
    alike = [usd for size, usd in priced if size == gpus]
    if alike:
        return max(alike)
    return max((usd / size * gpus for size, usd in priced if size), default=0.0)


def parse(text: str | bytes, what: str) -> PriceTable:
    """Raises InvalidConfig that names every problem, if `text` is no price book with a price in it."""
    try:
        table = PriceTable.model_validate(json.loads(text))
    except (ValueError, RecursionError) as error:
        if not isinstance(error, ValidationError):
            raise InvalidConfig([f"not JSON: {error}"], what=what) from None
        problems = [
            f"{'.'.join(map(str, each['loc'])) or 'the document'}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        ]
        raise InvalidConfig(problems, what=what) from None
    machines = [m for cloud in table.clouds.values() for m in cloud.types.values()]
    if not any(machine.usd_per_hour for machine in machines):
        raise InvalidConfig(["clouds: there is no usd_per_hour in it"], what=what)
    return table


def read_table(path: Path) -> PriceTable:
    what = f"price book {path}"
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidConfig([f"cannot be read: {error.strerror}"], what=what) from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidConfig([f"is larger than {MAX_FILE_BYTES} bytes"], what=what)
    return parse(content, what)


def open_book(data_dir: Path | None, overrides: Sequence[PriceOverride] = ()) -> PriceBook:
    """The newer of the bundled table and the one in the data folder. Raises InvalidConfig if that is malformed."""
    book = PriceBook(table=read_table(BUNDLED), overrides=tuple(overrides))
    newer = None if data_dir is None else data_dir / FILE_NAME
    if newer is None or not newer.exists():
        return book
    table = read_table(newer)
    if table.as_of <= book.table.as_of:
        return book
    return PriceBook(table=table, overrides=tuple(overrides), file=newer)


@cache
def known_types(cloud: str) -> tuple[str, ...]:
    """Of its machines: those that the bundled price book names."""
    return tuple(read_table(BUNDLED).clouds[cloud].types)


def import_table(path: Path, data_dir: Path, today: date) -> PriceTable:
    """Check a table and write it into the data folder. Raises InvalidConfig if it is malformed or not newer."""
    table = read_table(path)
    now = open_book(data_dir).table
    if table.as_of > today:
        raise InvalidConfig([f"as_of: {table.as_of} is in the future"], what=f"price book {path}")
    if table.as_of <= now.as_of:
        raise InvalidConfig(
            [f"as_of: {table.as_of} is not newer than the prices in use, of {now.as_of}"],
            what=f"price book {path}",
        )
    write_atomic(data_dir / FILE_NAME, table.model_dump_json(indent=1).encode(), durable=True)
    return table
