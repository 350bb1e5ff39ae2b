"""What a condition or a sort is about: a column, a hyperparameter, a metric, or a key of a run's metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from master.experiments.finding.columns import COLUMNS, Kind, Table
from windlass.base.errors import InvalidArgument

STATISTICS = ("min", "max", "mean", "last")
MAX_NAME_CHARS = 1_000
MAX_KEYS = 64
"""Of a path: as deep as free JSON may be nested."""
HYPERPARAMETER, METADATA = "hp.", "metadata."


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Space:
    """A hyperparameter of an experiment: one value, or a range to search."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hyperparameter:
    """A hyperparameter of a run."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """Of a run, or of the best trial of an experiment."""

    group: str
    name: str
    statistic: str


Source: TypeAlias = Column | Space | Hyperparameter | Metadata | Metric


def column(table: Table, name: str) -> Column:
    """Raises InvalidArgument."""
    known = COLUMNS[table].get(name)
    if known is None:
        raise InvalidArgument(
            f"unknown column {short(name)} of {table}; use one of {', '.join(COLUMNS[table])}"
        )
    return Column(name, known.kind)


def hyperparameter(table: Table, name: str) -> Source:
    """Raises InvalidArgument. Of runs it is always their own value."""
    path = _path(name, HYPERPARAMETER)
    return Hyperparameter(path) if table is Table.RUNS else Space(path)


def metadata(table: Table, name: str) -> Metadata:
    """Raises InvalidArgument."""
    if table is not Table.RUNS:
        raise InvalidArgument(f"{short(name)}: only runs have metadata")
    return Metadata(_path(name, METADATA))


def metric(name: str) -> Metric:
    """`group.name.statistic`; the name may have dots of its own. Raises InvalidArgument."""
    group, _, rest = name.partition(".")
    inner, _, statistic = rest.rpartition(".")
    if not group or not inner or statistic not in STATISTICS:
        raise InvalidArgument(
            f"{short(name)} is no metric: expected <group>.<name>.<{'|'.join(STATISTICS)}>"
        )
    return Metric(group, inner, statistic)


def by_name(table: Table, name: str) -> Source:
    """What a name without a location means. Raises InvalidArgument."""
    if name in COLUMNS[table]:
        return column(table, name)
    if name.startswith(HYPERPARAMETER):
        return hyperparameter(table, name)
    if name.startswith(METADATA):
        return metadata(table, name)
    return metric(name) if "." in name else column(table, name)


def short(name: str) -> str:
    """For messages."""
    return repr(name[:80])


def _path(name: str, prefix: str) -> tuple[str, ...]:
    if not name.startswith(prefix) or name == prefix:
        raise InvalidArgument(f"{short(name)}: expected {prefix}<name>")
    keys = tuple(name.removeprefix(prefix).split("."))
    if len(keys) > MAX_KEYS:
        raise InvalidArgument(f"{short(name)} has more than {MAX_KEYS} parts")
    return keys
