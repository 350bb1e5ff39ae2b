"""Which samples of an epoch this rank takes, and how far all ranks have come in it."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from windlass.core._distributed import DistributedContext, DummyDistributedContext
from windlass.core.data._order import Shuffled

T = TypeVar("T")


class _Sharded(ABC, Generic[T]):
    """Ranks take turns: of the samples that are left, rank r takes number r, r + size, r + 2 * size, and so on.

    All ranks take equally many, so that none waits for another in a collective operation. While they do so in step,
    what they have taken together is the beginning of the epoch's order: a place in it is one number, which holds for
    any number of ranks.
    """

    def __init__(self, distributed: DistributedContext | None, *, drop_last: bool) -> None:
        dist = distributed or DummyDistributedContext()
        self.rank = dist.rank
        self.size = dist.size
        self.drop_last = drop_last
        self.epoch = 0
        self._consumed = 0
        """By all ranks in this epoch."""

    @abstractmethod
    def __iter__(self) -> Iterator[T]:
        """What this rank has left of the epoch. Does not count: `track` does."""

    @abstractmethod
    def _identity(self) -> dict[str, Any]:
        """What must be the same for a place in the middle of an epoch to mean anything."""

    def _at_end(self) -> bool:
        return False

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of this epoch, unless that is the one being read."""
        if epoch < 0:
            raise ValueError(f"epoch must be 0 or more, not {epoch}")
        if epoch != self.epoch:
            self.epoch, self._consumed = epoch, 0

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs up to `count` that are not completed. The first one may have begun."""
        while self.epoch < count:
            before = self.epoch
            yield before
            if self.epoch == before:  # nobody tracked it
                self.set_epoch(before + 1)

    def track(self, batches: Iterable[Any], batch_size: int = 1) -> Iterator[Any]:
        """Iterate over a loader that reads from this object, counting what it hands out; at its end the epoch is over.

        `batch_size` is that of one rank. A batch counts from when the loop has it: save the state after its step. What
        a loader has only fetched ahead does not count.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, not {batch_size}")
        epoch = self.epoch
        for batch in batches:
            self._count(batch_size * self.size)
            yield batch
        if self.epoch == epoch:
            self.set_epoch(epoch + 1)

    def _count(self, samples: int) -> None:
        self._consumed += samples

    def state_dict(self) -> dict[str, Any]:
        """Where all ranks are, as plain JSON: one rank's is enough, when all have made the same number of steps."""
        if self._at_end():
            return {"epoch": self.epoch + 1, "consumed": 0, **self._identity()}
        return {"epoch": self.epoch, "consumed": self._consumed, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken, with any number of ranks."""
        place = {}
        for name in ("epoch", "consumed"):
            value = state.get(name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(
                    f"{name} must be an integer of 0 or more, not {value!r}: "
                    f"pass what state_dict() of a {type(self).__name__} returned"
                )
            place[name] = value
        if place["consumed"]:
            for name, value in self._identity().items():
                if state.get(name) != value:
                    raise ValueError(
                        f"{name} was {state.get(name)!r} and is now {value!r}: in the middle of an epoch it must stay; "
                        "restore it, or begin the next epoch with set_epoch()"
                    )
        self.epoch, self._consumed = place["epoch"], place["consumed"]


class ShardedSampler(_Sharded[int]):
    """Indices of a dataset of known length: what a torch DataLoader takes as its `sampler`.

    `length`: of the dataset, the same on all ranks. Without `shuffle` the order is that of the dataset.
    If ranks cannot take equally many of the samples that are left, the last ones are repeated from the beginning of the
    epoch's order; with `drop_last` they are left out.
    """

    def __init__(
        self,
        length: int,
        distributed: DistributedContext | None = None,
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        super().__init__(distributed, drop_last=drop_last)
        if length < 1:
            raise ValueError(f"length must be 1 or more, not {length}: the dataset is empty")
        self.length = length
        self.seed = seed
        self.shuffle = shuffle

    def __len__(self) -> int:
        """How many samples this rank has left of the epoch."""
        left = max(self.length - self._consumed, 0)
        return left // self.size if self.drop_last else -(-left // self.size)

    def __iter__(self) -> Iterator[int]:
        order: Sequence[int] = range(self.length)
        if self.shuffle:
            order = Shuffled(self.length, self.seed, self.epoch)
        first = self._consumed + self.rank
        places = range(first, first + len(self) * self.size, self.size)
        return (order[place % self.length] for place in places)

    def _count(self, samples: int) -> None:
        self._consumed = min(self._consumed + samples, self.length)

    def _at_end(self) -> bool:
        return len(self) == 0

    def _identity(self) -> dict[str, Any]:
        return {"length": self.length, "seed": self.seed if self.shuffle else None}


class ShardedStream(_Sharded[T]):
    """Every so many-th sample of an iterator whose length nobody knows.

    `open_epoch(epoch)` returns the samples of an epoch, the same in the same order on all ranks. Each rank reads all of
    them and keeps its own; going on in mid-epoch reads again what came before. A last round that is too short for all
    ranks is filled with the first samples of the epoch; with `drop_last` it is left out.
    """

    def __init__(
        self,
        open_epoch: Callable[[int], Iterable[T]],
        distributed: DistributedContext | None = None,
        *,
        drop_last: bool = False,
    ) -> None:
        super().__init__(distributed, drop_last=drop_last)
        self._open_epoch = open_epoch

    def __iter__(self) -> Iterator[T]:
        samples = iter(self._open_epoch(self.epoch))
        beginning = list(itertools.islice(samples, self.size - 1))
        left = itertools.islice(itertools.chain(beginning, samples), self._consumed, None)
        while turn := list(itertools.islice(left, self.size)):
            if len(turn) < self.size:
                if self.drop_last:
                    return
                turn += itertools.islice(itertools.cycle(beginning), self.size - len(turn))
            yield turn[self.rank]

    def _identity(self) -> dict[str, Any]:
        return {}
