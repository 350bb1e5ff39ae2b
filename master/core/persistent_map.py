"""An immutable mapping whose changed copies share what did not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class PersistentMap(Mapping[K, V]):
    """Keeps the order of insertion; no key is ever removed.

    A large base that copies share, and a small overlay of what changed since. A change copies the overlay; when that
    has outgrown the square root of the base, both become the new base. So a change of n items costs about 2 sqrt(n).
    """

    __slots__ = ("_base", "_fresh", "_overlay")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(items or {})
        self._overlay: dict[K, V] = {}
        self._fresh = 0
        """Keys of the overlay that are not in the base."""

    def updated(self, changes: Mapping[K, V]) -> PersistentMap[K, V]:
        """A copy with these items replaced or added."""
        if not changes:
            return self
        overlay = {**self._overlay, **changes}
        if len(overlay) > isqrt(len(self._base)):
            return PersistentMap(self._base | overlay)
        copy: PersistentMap[K, V] = PersistentMap()
        copy._base = self._base
        copy._overlay = overlay
        copy._fresh = self._fresh + sum(
            key not in self._base and key not in self._overlay for key in changes
        )
        return copy

    def __getitem__(self, key: K) -> V:
        try:
            return self._overlay[key]
        except KeyError:
            return self._base[key]

    def __iter__(self) -> Iterator[K]:
        yield from self._base
        if self._fresh:
            yield from (key for key in self._overlay if key not in self._base)

    def __len__(self) -> int:
        return len(self._base) + self._fresh

    def __contains__(self, key: object) -> bool:
        return key in self._overlay or key in self._base

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"
