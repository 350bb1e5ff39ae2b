"""The state of a search as its snapshot in the store. All its floats are finite by construction."""

from __future__ import annotations

from master.core.persistent_map import PersistentMap
from master.core.searcher.adaptive import TournamentState
from master.core.searcher.asha import AshaState
from master.core.searcher.external import ExternalState
from master.core.searcher.method import ProgressSum, TrialRecord
from master.core.searcher.random_search import CountState
from master.core.searcher.rng import RngState
from master.core.searcher.search import MethodState, SearchState
from master.core.searcher.types import ExitReason
from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonMapping, JsonObject

_KINDS: dict[str, type[MethodState]] = {
    "count": CountState,
    "asha": AshaState,
    "tournament": TournamentState,
    "external": ExternalState,
}
_NAMES = {type_: name for name, type_ in _KINDS.items()}


def state_to_json(state: SearchState) -> JsonObject:
    return {
        "rng": state.rng.to_json(),
        "trials": {id_: _record_to_json(record) for id_, record in state.trials.items()},
        "closed": state.closed,
        "method": {"kind": _NAMES[type(state.method)], **state.method.to_json()},
    }


def state_from_json(data: JsonMapping) -> SearchState:
    """Raises InvalidArgument for a snapshot of an unknown method."""
    trials = {id_: _record_from_json(record) for id_, record in data["trials"].items()}
    return SearchState(
        rng=RngState.from_json(data["rng"]),
        trials=PersistentMap(trials),
        progress_sum=ProgressSum.of(trials.values()),
        closed=data["closed"],
        method=_method_from_json(data["method"]),
    )


def _method_from_json(data: JsonMapping) -> MethodState:
    kind = _KINDS.get(data["kind"])
    if kind is None:
        raise InvalidArgument(f"searcher snapshot of an unknown method {data['kind']!r}")
    return kind.from_json(data)


def _record_to_json(record: TrialRecord) -> JsonObject:
    """Only what differs from a trial that has just begun: a search can have many."""
    data: JsonObject = {}
    if not record.received:
        data["received"] = False
    if record.progress:
        data["progress"] = record.progress
    if record.early_exit is not None:
        data["early_exit"] = record.early_exit.value
    if record.stopped:
        data["stopped"] = True
    if record.closed:
        data["closed"] = True
    if record.awaits_point:
        data["awaits_point"] = True
    return data


def _record_from_json(data: JsonMapping) -> TrialRecord:
    early_exit = data.get("early_exit")
    return TrialRecord(
        received=data.get("received", True),
        progress=data.get("progress", 0.0),
        early_exit=None if early_exit is None else ExitReason(early_exit),
        stopped=data.get("stopped", False),
        closed=data.get("closed", False),
        awaits_point=data.get("awaits_point", False),
    )
