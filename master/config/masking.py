"""The effective configuration as it may be shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from master.config.model import MasterConfig
from master.core.expconf import secrets
from master.core.expconf.container_defaults import TaskContainerDefaults
from master.core.expconf.models.durations import AUTO
from windlass.base.formats.durations import format_duration
from windlass.base.no_effect import mark_of


def masked(config: MasterConfig) -> dict[str, Any]:
    """What applies, JSON-able: every key that has an effect with its value, secrets as `********`.

    Loaded again, without secrets, it means the same.
    """
    document = config.model_dump(mode="json", by_alias=True)
    document["resource_pools"] = [
        section.model_dump(mode="json", by_alias=True) for section in config.pool_sections()
    ]
    _resolve(config, document)
    _leave_out_marked(config, document)
    return secrets.masked(document)


def _resolve(config: MasterConfig, document: dict[str, Any]) -> None:
    """Values that follow from other keys, where they apply."""
    manager = document["resource_manager"]
    manager["default_aux_resource_pool"] = config.default_aux_pool
    manager["default_compute_resource_pool"] = config.default_compute_pool
    _leave_out_marked_defaults(document)
    pools = {pool.name: pool for pool in config.pools()}
    for shown in document["resource_pools"]:
        pool = pools[shown["pool_name"]]
        shown["scheduler"] = shown["scheduler"] or manager.get("scheduler")
        _leave_out_marked_defaults(shown)
        if pool.is_elastic:
            settings = pool.settings
            shown["min_instances"] = settings.min_instances
            shown["max_instances"] = settings.max_instances
            idle = format_duration(timedelta(seconds=settings.max_idle_s))
            shown["max_idle_agent_period"] = AUTO if settings.idle_auto else idle


def _leave_out_marked_defaults(owner: dict[str, Any]) -> None:
    section = owner["task_container_defaults"]
    if section:
        _leave_out_marked(TaskContainerDefaults.model_validate(section), section)


def _leave_out_marked(model: BaseModel, document: dict[str, Any]) -> None:
    """Remove what has no effect: `document` says nothing that is not so."""
    for name, field in type(model).model_fields.items():
        key = field.alias or name
        if mark_of(field) is not None:
            document.pop(key, None)
            continue
        values, shown = getattr(model, name), document.get(key)
        if isinstance(values, BaseModel):
            values, shown = (values,), (shown,)
        if not isinstance(values, tuple) or shown is None:
            continue
        for value, below in zip(values, shown, strict=False):
            if isinstance(value, BaseModel) and isinstance(below, dict):
                _leave_out_marked(value, below)
