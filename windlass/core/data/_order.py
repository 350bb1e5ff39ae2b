"""The order of an epoch, computed sample by sample: without a list in memory, and from any place of it at once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import overload

_ROUNDS = 4
_SMALLEST_SIDE = 16
"""Below it too few orders could come out of a square of that side. Costs at most 256 steps an epoch."""
_MASK = (1 << 64) - 1


class Shuffled(Sequence[int]):
    """The numbers below `length`, in an order that depends on `seed` and `epoch` alone.

    A Feistel network on a square of at least `length` cells: each round is reversible, so all numbers of the square
    come out once; those that are too large are sent through again until they are not.
    """

    __slots__ = ("_keys", "_length", "_side")

    def __init__(self, length: int, seed: int, epoch: int) -> None:
        self._length = length
        self._side = max(math.isqrt(max(length - 1, 0)) + 1, _SMALLEST_SIDE)
        digest = hashlib.blake2b(f"{seed}:{epoch}".encode(), digest_size=8 * _ROUNDS).digest()
        self._keys = [
            int.from_bytes(digest[start : start + 8], "little")
            for start in range(0, len(digest), 8)
        ]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError(f"{index} is not a place in an epoch of {self._length} samples")
        side = self._side
        while True:
            left, right = divmod(place, side)
            for key in self._keys:
                left, right = right, (left + _mixed(right + key)) % side
            place = left * side + right
            if place < self._length:
                return place

    def __iter__(self) -> Iterator[int]:
        return (self[index] for index in range(self._length))


def _mixed(number: int) -> int:
    """Every bit of the result depends on every bit of the number (the finalizer of SplitMix64)."""
    number &= _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)
