"""`windlass_external`: a client says over REST which trials there are, and when there are no more.

The client keeps the method (Optuna, Ax, a script); what is kept here is what a repeated request must find again.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace

from master.core.persistent_map import PersistentMap
from master.core.searcher.method import Actions, ProgressSum
from master.core.searcher.sampling import TrialFactory
from master.core.searcher.space import Const, Nested
from master.core.searcher.types import ExitReason, RequestId, TrialAdded
from windlass.base.errors import InvalidArgument, InvalidState
from windlass.base.formats.json_types import JsonMapping, JsonObject

NAME = "windlass_external"


@dataclass(frozen=True, slots=True)
class ExternalState:
    request_ids: PersistentMap[str, RequestId] = field(
        default_factory=PersistentMap[str, RequestId]
    )
    """By the key that the client gave with each trial."""
    closed: bool = False
    """No trial is added any more."""

    def to_json(self) -> JsonObject:
        return {"request_ids": dict(self.request_ids), "closed": self.closed}

    @classmethod
    def from_json(cls, data: JsonMapping) -> ExternalState:
        return cls(PersistentMap(data["request_ids"]), data["closed"])


@dataclass(frozen=True, slots=True)
class External:
    """Trials that run to their own end, unless the client stops them. None is ever replaced."""

    first_trials: int = 0

    def initial_state(self) -> ExternalState:
        return ExternalState()

    def begin(self, state: ExternalState, trials: TrialFactory) -> tuple[ExternalState, Actions]:
        return state, ()

    def add(
        self, state: ExternalState, added: TrialAdded, trials: TrialFactory
    ) -> tuple[ExternalState, Actions]:
        """A known key adds nothing. Raises InvalidState once the search is closed."""
        if added.key in state.request_ids:
            return state, ()
        if state.closed:
            raise InvalidState("the search is closed: no trial can be added any more")
        create = trials.at(added.hparams, checkpoint=added.checkpoint)
        request_ids = state.request_ids.updated({added.key: create.request_id})
        return replace(state, request_ids=request_ids), (create,)

    def on_validation(
        self,
        state: ExternalState,
        request_id: RequestId,
        metrics: JsonMapping,
        trials: TrialFactory,
    ) -> tuple[ExternalState, Actions]:
        return state, ()

    def on_early_exit(
        self, state: ExternalState, request_id: RequestId, reason: ExitReason, trials: TrialFactory
    ) -> tuple[ExternalState, Actions]:
        return state, ()

    def on_exit(
        self, state: ExternalState, request_id: RequestId, trials: TrialFactory
    ) -> tuple[ExternalState, Actions]:
        return state, ()

    def progress(self, state: ExternalState, progress_sum: ProgressSum) -> float:
        """The mean over the trials there are so far."""
        return progress_sum.mean_progress


def completed(space: Nested, given: JsonMapping) -> JsonObject:
    """What a client gave, with the constants of the configuration that it left out.

    Raises InvalidArgument naming a hyperparameter that has a range and no value.
    """
    return _completed(space, given, "hparams")


def _completed(space: Nested, given: JsonMapping, path: str) -> JsonObject:
    full = dict(given)
    for name, child in space.items:
        where = f"{path}.{name}"
        if isinstance(child, Nested):
            inner = given.get(name, {})
            if not isinstance(inner, Mapping):
                raise InvalidArgument(f"{where}: expected an object, as in the configuration")
            full[name] = _completed(child, inner, where)
        elif name in given:
            continue
        elif isinstance(child, Const):
            full[name] = deepcopy(child.value)
        else:
            raise InvalidArgument(
                f"{where}: missing: the configuration gives it a range, so every trial needs a value"
            )
    return full
