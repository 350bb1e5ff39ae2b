"""The random stream of a search, as a value.

A search promises the same trials for the same seed, across restarts and releases, so its generator is pinned here and
is part of the snapshot: MT19937, seeded and read as numpy's legacy `RandomState` does (that is what the system we
succeed uses). `random.Random` runs the same twister; only its seeding differs, so we set its 624 words ourselves.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonMapping, JsonObject

WORDS = 624
MAX_SEED = 2**32 - 1
_STATE_VERSION = 3
"""The version tag that `random.Random.setstate` expects in front of the words."""


@dataclass(frozen=True, slots=True)
class RngState:
    """Where the stream stands: the twister's words and the position of the next output among them."""

    key: tuple[int, ...]
    pos: int

    @classmethod
    def seeded(cls, seed: int) -> RngState:
        """The state after `init_genrand(seed)`; `seed` is an unsigned 32-bit integer."""
        if not 0 <= seed <= MAX_SEED:
            raise InvalidArgument(f"experiment_seed must be from 0 to {MAX_SEED}, not {seed}")
        words = [seed]
        for i in range(1, WORDS):
            last = words[-1]
            words.append((1812433253 * (last ^ (last >> 30)) + i) & 0xFFFFFFFF)
        return cls(key=tuple(words), pos=WORDS)

    def to_json(self) -> JsonObject:
        return {"key": list(self.key), "pos": self.pos}

    @classmethod
    def from_json(cls, data: JsonMapping) -> RngState:
        return cls(key=tuple(data["key"]), pos=data["pos"])


class Draws:
    """A generator for the length of one step: made from a state, turned back into one.

    Nothing is unpacked before the first draw, so a step that draws nothing costs nothing.
    """

    def __init__(self, state: RngState) -> None:
        self._start = state
        self._random: random.Random | None = None

    def state(self) -> RngState:
        """The state after all draws so far; the very same object when there were none."""
        if self._random is None:
            return self._start
        *key, pos = self._random.getstate()[1]
        return RngState(key=tuple(key), pos=pos)

    def bits32(self) -> int:
        return self._twister().getrandbits(32)

    def bits64(self) -> int:
        """Two outputs, the first is the high word."""
        high = self.bits32()
        return high << 32 | self.bits32()

    def unit(self) -> float:
        """A double in [0, 1) with 53 random bits, from two outputs."""
        return self._twister().random()

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.unit()

    def below(self, n: int) -> int:
        """An integer in [0, n) by masking and rejecting; with a single choice nothing is drawn."""
        largest = n - 1
        if largest == 0:
            return 0
        mask = (1 << largest.bit_length()) - 1
        draw = self.bits32 if largest <= 0xFFFFFFFF else self.bits64
        while (value := draw() & mask) > largest:
            pass
        return value

    def bytes16(self) -> bytes:
        """Four outputs, each little-endian."""
        return b"".join(self.bits32().to_bytes(4, "little") for _ in range(4))

    def _twister(self) -> random.Random:
        if self._random is None:
            self._random = random.Random()
            self._random.setstate((_STATE_VERSION, (*self._start.key, self._start.pos), None))
        return self._random
