"""The older way of asking how long to train: one operation made from `searcher.max_length`, without any call.

New code sets its training length itself and reports progress by `core_context.train`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from windlass.core._distributed import DistributedContext
from windlass.core._train import TrainContext


class Unit(enum.Enum):
    EPOCHS = "EPOCHS"
    RECORDS = "RECORDS"
    BATCHES = "BATCHES"


class SearcherMode(enum.Enum):
    """Who may iterate over operations."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"


def parse_max_length(config: dict[str, Any]) -> tuple[int | None, Unit | None]:
    """`max_length: 50` or `max_length: {epochs: 50}`; the unit may also stand in `searcher.unit`."""
    searcher = config.get("searcher") or {}
    length, unit = searcher.get("max_length"), searcher.get("unit")
    if isinstance(length, dict):
        name, length = next(iter(length.items()), (None, None))
        unit = unit or name
    known = {u.value.lower(): u for u in Unit}
    return (int(length) if length else None), known.get(str(unit).lower())


class SearcherOperation:
    """Train up to `length` (absolute, not further from here), validate, report."""

    def __init__(self, train: TrainContext, length: int, is_chief: bool) -> None:
        self._train = train
        self._length = length
        self._is_chief = is_chief
        self._completed = False

    @property
    def length(self) -> int:
        return self._length

    @property
    def completed(self) -> bool:
        return self._completed

    def report_progress(self, length: float) -> None:
        """`length` is how far training is, in the unit of `.length`. Chief only."""
        self._check_chief("report_progress")
        if self._completed and length != self._length:
            raise RuntimeError("report_progress() was called after report_completed()")
        self._train.report_progress(min(1.0, max(0.0, length / self._length)))

    def report_completed(self, searcher_metric: Any) -> None:
        """The operation is done. The searcher itself reads the validation metrics. Chief only."""
        self._check_chief("report_completed")
        if self._completed:
            raise RuntimeError("report_completed() was called twice")
        self._completed = True

    def _check_chief(self, call: str) -> None:
        if not self._is_chief:
            raise RuntimeError(f"{call}() may only be called by the chief")


class SearcherContext:
    """`core_context.searcher`."""

    def __init__(
        self,
        train: TrainContext,
        dist: DistributedContext,
        length: int | None,
        unit: Unit | None = None,
    ) -> None:
        self._train = train
        self._dist = dist
        self._length = length
        self._unit = unit

    def operations(
        self,
        searcher_mode: SearcherMode = SearcherMode.WorkersAskChief,
        auto_ack: bool = True,
    ) -> Iterator[SearcherOperation]:
        """The operations of this trial: exactly one. Each must be completed by the chief before the next is taken."""
        mode = SearcherMode(searcher_mode)
        length = self._configured_length()
        is_chief = self._dist.rank == 0
        if mode is SearcherMode.ChiefOnly and not is_chief:
            raise RuntimeError("operations(ChiefOnly) was called by a rank other than the chief")
        if mode is SearcherMode.WorkersAskChief:
            length = self._dist.broadcast(length)
        operation = SearcherOperation(self._train, length, is_chief)
        yield operation
        if is_chief and not operation.completed:
            raise RuntimeError("report_completed() must be called on each operation")
        if mode is SearcherMode.WorkersAskChief:
            self._dist.broadcast(None)

    def acknowledge_out_of_ops(self) -> None:
        """Nothing to acknowledge; kept because older programs call it."""
        self._configured_length()

    def get_configured_units(self) -> Unit | None:
        self._configured_length()
        return self._unit

    def _configured_length(self) -> int:
        if self._length is None:
            raise ValueError(
                "the experiment has no searcher.max_length, so there are no searcher operations: "
                "set the training length in your code and drop core_context.searcher"
            )
        return self._length
