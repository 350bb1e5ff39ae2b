"""Events and actions as the store keeps them, one JSON object each with a `type`.

Metrics may be NaN or infinite, which JSON numbers cannot be: they are stored as the strings that clients also send.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from master.core.searcher.metrics import NON_FINITE
from master.core.searcher.types import (
    Action,
    Create,
    Event,
    ExitReason,
    InitialTrials,
    PointChosen,
    SearchClosed,
    Shutdown,
    Stop,
    StopAsked,
    TrialAdded,
    TrialContinued,
    TrialCreated,
    TrialExited,
    TrialExitedEarly,
    TrialProgress,
    ValidationCompleted,
)
from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonMapping, JsonObject


def event_to_json(event: Event) -> JsonObject:
    match event:
        case InitialTrials():
            return {"type": "initial_trials"}
        case TrialCreated(request_id):
            return {"type": "trial_created", "request_id": request_id}
        case ValidationCompleted(request_id, metrics):
            return {
                "type": "validation_completed",
                "request_id": request_id,
                "metrics": _without_non_finite(metrics),
            }
        case TrialExitedEarly(request_id, reason):
            return {
                "type": "trial_exited_early",
                "request_id": request_id,
                "reason": reason.value,
            }
        case TrialExited(request_id):
            return {"type": "trial_exited", "request_id": request_id}
        case TrialProgress(request_id, fraction):
            return {
                "type": "trial_progress",
                "request_id": request_id,
                "fraction": _without_non_finite(fraction),
            }
        case TrialContinued(request_id):
            return {"type": "trial_continued", "request_id": request_id}
        case TrialAdded(key, hparams, checkpoint):
            return {
                "type": "trial_added",
                "key": key,
                "hparams": _without_non_finite(hparams),
                **_from_checkpoint(checkpoint),
            }
        case StopAsked(request_id):
            return {"type": "stop_asked", "request_id": request_id}
        case SearchClosed():
            return {"type": "search_closed"}
        case PointChosen(request_id, hparams):
            return {
                "type": "point_chosen",
                "request_id": request_id,
                "hparams": _without_non_finite(hparams),
            }


def event_from_json(data: JsonMapping) -> Event:
    """Raises InvalidArgument for a type or a field that this release does not know."""
    event = _event(data)
    if unknown := set(data) - set(event_to_json(event)):
        raise InvalidArgument(f"not a searcher event: {dict(data)!r} ({', '.join(unknown)}?)")
    return event


def _event(data: JsonMapping) -> Event:
    match data:
        case {"type": "initial_trials"}:
            return InitialTrials()
        case {"type": "trial_created", "request_id": str(id_)}:
            return TrialCreated(id_)
        case {"type": "validation_completed", "request_id": str(id_), "metrics": metrics}:
            return ValidationCompleted(id_, _with_non_finite(metrics))
        case {"type": "trial_exited_early", "request_id": str(id_), "reason": reason}:
            return TrialExitedEarly(id_, ExitReason(reason))
        case {"type": "trial_exited", "request_id": str(id_)}:
            return TrialExited(id_)
        case {"type": "trial_progress", "request_id": str(id_), "fraction": fraction}:
            return TrialProgress(id_, _with_non_finite(fraction))
        case {"type": "trial_continued", "request_id": str(id_)}:
            return TrialContinued(id_)
        case {"type": "trial_added", "key": str(key), "hparams": hparams}:
            return TrialAdded(key, hparams, data.get("checkpoint"))
        case {"type": "stop_asked", "request_id": str(id_)}:
            return StopAsked(id_)
        case {"type": "search_closed"}:
            return SearchClosed()
        case {"type": "point_chosen", "request_id": str(id_), "hparams": hparams}:
            return PointChosen(id_, hparams)
    raise InvalidArgument(f"not a searcher event: {dict(data)!r}")


def action_to_json(action: Action) -> JsonObject:
    match action:
        case Create(request_id, trial_seed, hparams, checkpoint):
            return {
                "type": "create",
                "request_id": request_id,
                "trial_seed": trial_seed,
                "hparams": _without_non_finite(hparams),
                **_from_checkpoint(checkpoint),
            }
        case Stop(request_id):
            return {"type": "stop", "request_id": request_id}
        case Shutdown(cancel, failure):
            return {"type": "shutdown", "cancel": cancel, "failure": failure}


def action_from_json(data: JsonMapping) -> Action:
    """Raises InvalidArgument for a type that this release does not know."""
    match data:
        case {
            "type": "create",
            "request_id": str(id_),
            "trial_seed": int(seed),
            "hparams": hparams,
        }:
            # Strings stay strings here: a hyperparameter may well be called "NaN", none can be it.
            return Create(id_, seed, hparams, data.get("checkpoint"))
        case {"type": "stop", "request_id": str(id_)}:
            return Stop(id_)
        case {"type": "shutdown", "cancel": bool(cancel), "failure": bool(failure)}:
            return Shutdown(cancel=cancel, failure=failure)
    raise InvalidArgument(f"not a searcher action: {dict(data)!r}")


def _from_checkpoint(checkpoint: str | None) -> JsonObject:
    return {} if checkpoint is None else {"checkpoint": checkpoint}


def _without_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _without_non_finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_non_finite(v) for v in value]
    return value


def _with_non_finite(value: Any) -> Any:
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, Mapping):
        return {key: _with_non_finite(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_with_non_finite(v) for v in value]
    return value
