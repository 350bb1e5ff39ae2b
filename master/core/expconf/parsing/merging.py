"""Laying one document over another: user over template, over workspace, over cluster; policy over user.

The default rule is key by key, the upper value winning unless it is absent or null. The tables below say what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, TypeAlias

from master.core.expconf.models import searchers, storage
from master.core.expconf.models.log_policies import merge_log_policies
from master.core.expconf.parsing.normalise import normalise

Rule: TypeAlias = Callable[[Any, Any], Any]
"""(high, low) -> merged; neither is None. Where their types clash `high` wins."""


def merge(high: Mapping[str, Any], low: Mapping[str, Any]) -> dict[str, Any]:
    """`high` over `low`, both partial experiment configurations. The arguments are not changed."""
    return _keys(normalise(high), normalise(low), _EXPERIMENT)


def merge_items(high: Any, low: Any, key: str) -> Any:
    """`high`'s items, then those of `low` whose `key` no item of `high` has."""
    if not (_is_list(high) and _is_list(low)):
        return high
    taken = [item.get(key) for item in high if isinstance(item, Mapping)]
    return [*high, *(i for i in low if not (isinstance(i, Mapping) and i.get(key) in taken))]


def _keys(
    high: Mapping[str, Any],
    low: Mapping[str, Any],
    rules: Mapping[str, Rule],
    otherwise: Rule | None = None,
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key in (*high, *(key for key in low if key not in high)):
        above, below = high.get(key), low.get(key)
        if above is None or below is None:
            result[key] = below if above is None else above
        else:
            result[key] = rules.get(key, otherwise or _deep)(above, below)
    return result


def _deep(high: Any, low: Any) -> Any:
    if isinstance(high, Mapping) and isinstance(low, Mapping):
        return _keys(high, low, {})
    return high


def _whole(high: Any, low: Any) -> Any:
    return high


def _section(rules: Mapping[str, Rule]) -> Rule:
    def rule(high: Any, low: Any) -> Any:
        if isinstance(high, Mapping) and isinstance(low, Mapping):
            return _keys(high, low, rules)
        return high

    return rule


def _items_by(key: str) -> Rule:
    return lambda high, low: merge_items(high, low, key)


def _variables(high: Any, low: Any) -> Any:
    """The lower ones first: the later of two with the same name wins when the task starts."""
    return [*low, *high] if _is_list(high) and _is_list(low) else high


def _labels(high: Any, low: Any) -> Any:
    if not (_is_list(high) and _is_list(low)):
        return high
    return sorted({str(label) for label in (*high, *low)})


def _log_policies(high: Any, low: Any) -> Any:
    return merge_log_policies(high, low) if _is_list(high) and _is_list(low) else high


def _space(high: Any, low: Any) -> Any:
    """Nested maps by name, leaves whole."""
    if _is_nested(high) and _is_nested(low):
        return _keys(high, low, {}, otherwise=_space)
    return high


def _hyperparameters(high: Any, low: Any) -> Any:
    """The top level has no `type`: there it is a name like any other."""
    if isinstance(high, Mapping) and isinstance(low, Mapping):
        return _keys(high, low, {}, otherwise=_space)
    return high


def _union(tag: str, common: Set[str], rules: Mapping[str, Rule]) -> Rule:
    """Of another member of the union only the common keys mean the same."""

    def rule(high: Any, low: Any) -> Any:
        if not (isinstance(high, Mapping) and isinstance(low, Mapping)):
            return high
        above, below = high.get(tag), low.get(tag)
        if above is not None and below is not None and above != below:
            low = {key: value for key, value in low.items() if key in common}
        return _keys(high, low, rules)

    return rule


def _checkpoint_storage(high: Any, low: Any) -> Any:
    if isinstance(high, Mapping) and isinstance(low, Mapping):
        own_access = any(high.get(key) is not None for key in storage.AZURE_ACCESS_KEYS)
        if own_access:
            low = {k: v for k, v in low.items() if k not in storage.AZURE_ACCESS_KEYS}
    return _STORAGE(high, low)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) and "type" not in value


_STORAGE = _union("type", storage.COMMON_KEYS, {})
_BY_PATH = _items_by("container_path")
_EXPERIMENT: Mapping[str, Rule] = {
    "bind_mounts": _BY_PATH,
    "labels": _labels,
    "log_policies": _log_policies,
    "hyperparameters": _hyperparameters,
    "min_validation_period": _whole,
    "min_checkpoint_period": _whole,
    "searcher": _union("name", searchers.COMMON_KEYS, {"max_length": _whole}),
    "checkpoint_storage": _checkpoint_storage,
    "resources": _section({"devices": _BY_PATH}),
    "environment": _section(
        {
            "environment_variables": _section(dict.fromkeys(("cpu", "cuda", "rocm"), _variables)),
            "proxy_ports": _items_by("proxy_port"),
            "registry_auth": _whole,
            "prologue": _variables,
        }
    ),
}
