"""Which settings of several configurations differ. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]
"""The keys from the root to a setting."""


class NotSet(Enum):
    """Stands for a setting that a configuration does not have, which is not the same as null."""

    NOT_SET = "not set"


NOT_SET = NotSet.NOT_SET


@dataclass(frozen=True, slots=True)
class Setting:
    path: Path
    values: tuple[Any, ...]
    """One for each configuration, in their order; `NOT_SET` where it has none."""

    @property
    def differs(self) -> bool:
        return len({_identity(value) for value in self.values}) > 1


def settings_of(configs: Sequence[Mapping[str, Any]]) -> list[Setting]:
    """Every setting that one of them has, by path."""
    each = [dict(_leaves(config)) for config in configs]
    paths = sorted({path for one in each for path in one})
    return [Setting(path, tuple(one.get(path, NOT_SET) for one in each)) for path in paths]


def _leaves(section: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Lists and empty sections are values: they are not looked into."""
    for key, value in section.items():
        path = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, path)
        else:
            yield path, value


def _identity(value: Any) -> Hashable:
    """Equal for what YAML writes in several ways (1, 1.0), and for nothing else: true is not 1, and NaN is NaN."""
    if isinstance(value, bool) or value is None or isinstance(value, NotSet):
        return (type(value), value)
    if isinstance(value, float) and value != value:
        return (float, "NaN")
    if isinstance(value, Mapping):
        return (dict, frozenset((str(key), _identity(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return (list, tuple(_identity(item) for item in value))
    return (str, value) if isinstance(value, str) else value
