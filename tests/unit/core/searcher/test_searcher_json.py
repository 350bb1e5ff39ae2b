"""What the store keeps of a search comes back as it was."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from master.core.searcher.event_json import (
    action_from_json,
    action_to_json,
    event_from_json,
    event_to_json,
)
from master.core.searcher.search import Search
from master.core.searcher.state_json import state_from_json, state_to_json
from master.core.searcher.types import (
    Action,
    Create,
    Event,
    ExitReason,
    InitialTrials,
    Shutdown,
    Stop,
    TrialCreated,
    TrialExited,
    TrialExitedEarly,
    TrialProgress,
    ValidationCompleted,
)
from windlass.base.errors import InvalidArgument


def through_store(data: dict[str, Any]) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


@pytest.mark.parametrize(
    "event",
    [
        InitialTrials(),
        TrialCreated("a"),
        ValidationCompleted("a", {"loss": 0.25, "n": 3, "deep": {"list": [1, None]}, "s": "text"}),
        ValidationCompleted("a", {"loss": math.inf, "other": [-math.inf]}),
        *(TrialExitedEarly("a", reason) for reason in ExitReason),
        TrialExited("a"),
        TrialProgress("a", 0.5),
        TrialProgress("a", math.inf),
    ],
)
def test_events_survive(event: Event) -> None:
    assert event_from_json(through_store(event_to_json(event))) == event


def test_nan_survives_as_a_string_in_the_store() -> None:
    stored = through_store(event_to_json(ValidationCompleted("a", {"loss": math.nan})))
    assert stored["metrics"] == {"loss": "NaN"}
    restored = event_from_json(stored)
    assert isinstance(restored, ValidationCompleted)
    assert math.isnan(restored.metrics["loss"])


@pytest.mark.parametrize(
    "action",
    [
        Create("a", 7, {"lr": 0.1, "name": "NaN", "nested": {"x": [1]}}),
        Stop("a"),
        Shutdown(),
        Shutdown(cancel=True),
        Shutdown(failure=True),
    ],
)
def test_actions_survive(action: Action) -> None:
    assert action_from_json(through_store(action_to_json(action))) == action


@pytest.mark.parametrize(
    "data", [{}, {"type": "dance"}, {"type": "stop"}, {"type": "trial_exited"}]
)
def test_unknown_forms_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="not a searcher event"):
        event_from_json(data)
    with pytest.raises(InvalidArgument, match="not a searcher action"):
        action_from_json(data)


@pytest.mark.parametrize("change", [{"method": {"kind": "oracle"}}])
def test_snapshots_of_another_release_are_refused(change: dict[str, Any]) -> None:
    data = state_to_json(Search.from_config({"name": "single", "metric": "m"}, {}, 1).start())
    assert state_from_json(data) == Search.from_config({"name": "single"}, {}, 1).start()
    with pytest.raises(InvalidArgument, match="searcher snapshot"):
        state_from_json(data | change)
