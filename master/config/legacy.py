"""Older forms of master.yaml brought to the current one, on the raw document, with a warning for each.

The oldest (before 0.14) had `scheduler` and `provisioner` at the top level and one nameless pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from master.core.expconf.parsing.errors import nearest
from windlass.base.formats.durations import parse_duration


class OldForm(ValueError):
    """The old form cannot be converted: what is wrong, and at which key."""

    def __init__(self, message: str, *at: str) -> None:
        super().__init__(message)
        self.at = at


def modernise(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The document in current form, and warnings. Raises `OldForm`. The argument is not changed."""
    result = {key: value for key, value in document.items() if value is not None}
    warnings: list[str] = []
    _top_level_scheduler(result, warnings)
    _internal_preemption_timeout(result, warnings)
    manager = result.get("resource_manager")
    if isinstance(manager, Mapping):
        result["resource_manager"] = _manager(manager, warnings)
    pools = result.get("resource_pools")
    if isinstance(pools, list):
        result["resource_pools"] = [
            _pool(pool, f"resource_pools[{index}]", warnings) for index, pool in enumerate(pools)
        ]
    return result, warnings


def _top_level_scheduler(document: dict[str, Any], warnings: list[str]) -> None:
    old = [key for key in ("scheduler", "provisioner") if document.get(key) is not None]
    if not old:
        return
    if any(document.get(key) is not None for key in ("resource_manager", "resource_pools")):
        raise OldForm(
            "cannot use the old and the new configuration schema at the same time: move "
            f"{' and '.join(old)} into resource_manager and resource_pools"
        )
    scheduler, provisioner = document.pop("scheduler", None), document.pop("provisioner", None)
    document["resource_manager"] = _old_manager(scheduler)
    pool: dict[str, Any] = {"pool_name": "default"}
    if provisioner is not None:
        pool["provider"] = _old_provider(provisioner)
    document["resource_pools"] = [pool]
    warnings.append(
        f"{' and '.join(old)}: the form of old releases, read as resource_manager and one "
        "resource pool `default`; write those instead"
    )


def _old_manager(scheduler: Any) -> dict[str, Any]:
    """The old default was priority scheduling with the best fit."""
    section: dict[str, Any] = {"type": "priority", "fitting_policy": "best"}
    if scheduler is None:
        return {"type": "agent", "scheduler": section}
    if not isinstance(scheduler, Mapping):
        raise OldForm("expected object", "scheduler")
    for old, new in (("type", "type"), ("fit", "fitting_policy")):
        if scheduler.get(old) is None:
            continue
        if not isinstance(scheduler[old], str):
            raise OldForm("expected string", "scheduler", old)
        section[new] = scheduler[old]
    unknown = sorted(set(scheduler) - {"type", "fit", "resource_provider"})
    if unknown:
        guess = nearest(unknown[0], ["type", "fit", "resource_provider"])
        hint = f'; did you mean "{guess}"?' if guess else ""
        raise OldForm(f'additionalProperties "{unknown[0]}" not allowed{hint}', "scheduler")
    provider = scheduler.get("resource_provider") or {}
    kind = provider.get("type") or "default" if isinstance(provider, Mapping) else provider
    if kind == "kubernetes":
        return {key: value for key, value in provider.items() if key != "scheduler"}
    if kind not in ("default", "agent"):
        raise OldForm(f"unsupported type {kind!r}", "scheduler", "resource_provider")
    return {
        "type": "agent",
        "scheduler": section,
        "default_aux_resource_pool": "default",
        "default_compute_resource_pool": "default",
    }


def _old_provider(provisioner: Any) -> dict[str, Any]:
    if not isinstance(provisioner, Mapping):
        raise OldForm("expected object", "provisioner")
    kind = provisioner.get("provider")
    if kind not in ("aws", "gcp"):
        raise OldForm(f"must be aws or gcp, not {kind!r}", "provisioner", "provider")
    return {
        "type": kind,
        **{key: value for key, value in provisioner.items() if key != "provider"},
    }


def _internal_preemption_timeout(document: dict[str, Any], warnings: list[str]) -> None:
    """`__internal.preemption_timeout` moves to the container defaults, unless they say their own."""
    internal = document.get("__internal")
    if not isinstance(internal, Mapping) or "preemption_timeout" not in internal:
        return
    value, where = internal["preemption_timeout"], ("__internal", "preemption_timeout")
    document["__internal"] = {k: v for k, v in internal.items() if k != "preemption_timeout"}
    warnings.append(
        "__internal.preemption_timeout is deprecated: use task_container_defaults.preemption_timeout"
    )
    if value is None:
        return
    try:
        seconds = int(parse_duration(value).total_seconds()) if isinstance(value, str) else None
    except ValueError as error:
        raise OldForm(str(error), *where) from None
    if seconds is None:
        raise OldForm('write a duration such as "30m"', *where)
    defaults = document.get("task_container_defaults")
    if isinstance(defaults, Mapping) and defaults.get("preemption_timeout") is None:
        document["task_container_defaults"] = {**defaults, "preemption_timeout": seconds}


def _manager(manager: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    result = dict(manager)
    for old, new in (
        ("default_cpu_resource_pool", "default_aux_resource_pool"),
        ("default_gpu_resource_pool", "default_compute_resource_pool"),
    ):
        value = result.pop(old, None)
        if value is not None:
            warnings.append(f"resource_manager.{old} is deprecated: use {new}")
            if not result.get(new):
                result[new] = value
    return result


def _pool(pool: Any, where: str, warnings: list[str]) -> Any:
    if not isinstance(pool, Mapping):
        return pool
    result = dict(pool)
    old = result.pop("max_cpu_containers_per_agent", None)
    if old is not None:
        warnings.append(
            f"{where}.max_cpu_containers_per_agent is deprecated: use max_aux_containers_per_agent"
        )
        result["max_aux_containers_per_agent"] = old
    return result
