"""Why experiments wait."""

from __future__ import annotations

from master.api.services import ApiContext
from master.core.reasons import Reason
from master.experiments.live import LiveExperiment


def waiting_reason(api: ApiContext, live: LiveExperiment | None) -> Reason | None:
    """Why the experiment's first waiting trial waits."""
    if live is None:
        return None
    return api.services.experiments.first_waiting_reason(live.waiting_trials())
