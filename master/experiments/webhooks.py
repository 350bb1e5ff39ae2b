"""What webhooks ask of an experiment: whom it calls, and what it tells."""

from __future__ import annotations

from master.core.expconf import ExperimentConfig
from master.core.webhooks.types import ExperimentFacts, Source
from master.experiments.lifecycle.state import ExperimentState


def webhook_source(config: ExperimentConfig, workspace_id: int) -> Source:
    """Whom its configuration names."""
    given = config.integrations.webhooks if config.integrations is not None else None
    if given is None:
        return Source(workspace_id=workspace_id)
    return Source(
        workspace_id=workspace_id,
        ids=given.webhook_id or (),
        names=given.webhook_name or (),
        exclude=given.exclude,
    )


def webhook_facts(state: ExperimentState, trial_id: int | None = None) -> ExperimentFacts:
    """Without the names of workspace and project: they are looked up when somebody is called."""
    ended, settings = state.ended_at, state.settings
    took = 0.0 if ended is None else (ended - state.created_at).total_seconds()
    return ExperimentFacts(
        id=state.id,
        state=state.phase.value,
        name=state.name,
        duration_s=int(took),
        resource_pool=settings.pool,
        slots_per_trial=settings.slots_per_trial,
        trial_id=trial_id,
    )
