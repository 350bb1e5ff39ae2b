"""What creating an experiment takes and answers, and the row that it begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from master.core.expconf import ExperimentConfig
from master.core.expconf.origins import Origin, origins_document
from master.core.expconf.templates import Template
from master.experiments.lifecycle.state import ExperimentState
from master.store.contexts import ContextFile, Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExperiment:
    """A request to create an experiment, parsed from the wire but not yet checked."""

    config: str
    template: Template | None = None
    files: tuple[ContextFile, ...] = ()
    blob_of: int | None = None
    """Without files of its own it gets those of this experiment."""
    activate: bool = True
    parent_id: int | None = None
    project_id: int = 1
    external_id: str | None = None
    """Of an unmanaged experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    experiment_id: int
    config: ExperimentConfig
    warnings: tuple[str, ...] = ()
    config_warnings: tuple[str, ...] = ()


def experiment_row(
    state: ExperimentState,
    new: NewExperiment,
    blob: str | None,
    listing: Listing,
    origins: Sequence[Origin] | None,
) -> dict[str, object]:
    """The first row of an experiment."""
    config = state.config
    return {
        "id": state.id,
        "job_id": state.job_id,
        "owner_id": state.owner_id,
        "project_id": new.project_id,
        "parent_id": new.parent_id,
        "state": state.phase.value,
        "name": state.name,
        "description": config.description or "",
        "labels": list(config.labels),
        "notes": "",
        "archived": False,
        "unmanaged": state.unmanaged,
        "external_id": new.external_id,
        "config": config.to_json(),
        "original_config": new.config,
        "config_origins": origins_document(origins),
        "template": "" if new.template is None else new.template.name,
        "model_definition": blob,
        "model_files": listing,
        "resource_pool": state.settings.pool,
        "progress": state.progress,
        "error": state.error,
        "created_at": state.created_at,
        "ended_at": state.ended_at,
    }
