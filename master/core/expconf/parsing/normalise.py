"""Short and old forms brought to the current one, on raw documents.

Values of a wrong type are left as they are: the models complain about them later, all at once. Applying this twice
is the same as once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from master.core.expconf.models.log_policies import without_duplicates
from windlass.base.formats.image_reference import DEFAULT_REGISTRY
from windlass.base.formats.json_types import JsonMapping, JsonObject
from windlass.base.formats.sizes import parse_size

DEVICE_TYPES = ("cpu", "cuda", "rocm")
Change: TypeAlias = Callable[[object], object]


def normalise(document: JsonMapping) -> JsonObject:
    """An experiment configuration in current form. The argument is not changed."""
    return _changed(document, _EXPERIMENT)


def normalise_container_defaults(document: JsonMapping) -> JsonObject:
    """A `task_container_defaults` section in current form.

    A login of the cluster's that names no registry is for Docker Hub, as for Docker itself: a user's own image may be
    anywhere.
    """
    return _changed(_changed(document, _ENVIRONMENT), _CONTAINER_DEFAULTS)


def _changed(document: JsonMapping, changes: Mapping[str, Change]) -> JsonObject:
    changed = {
        key: change(document[key])
        for key, change in changes.items()
        if document.get(key) is not None
    }
    return {**document, **changed}


def _section(changes: Mapping[str, Change]) -> Change:
    return lambda value: _changed(value, changes) if isinstance(value, Mapping) else value


def _renamed(old: str, new: str) -> Change:
    """The value of the old key, unless the new one has one."""

    def change(value: object) -> object:
        if not isinstance(value, Mapping) or old not in value:
            return value
        result = {key: item for key, item in value.items() if key != old}
        if result.get(new) is None:
            result[new] = value[old]
        return result

    return change


def _by_device_type(short_form: type) -> Change:
    without_gpu = _renamed("gpu", "cuda")
    return lambda value: (
        dict.fromkeys(DEVICE_TYPES, value) if isinstance(value, short_form) else without_gpu(value)
    )


def _for_one_registry(value: object) -> object:
    if not isinstance(value, Mapping) or value.get("serveraddress"):
        return value
    return {**value, "serveraddress": DEFAULT_REGISTRY}


def _size(value: object) -> object:
    parsed = parse_size(value) if isinstance(value, str) else None
    return value if parsed is None else parsed


def _devices(value: object) -> object:
    return [_device(item) for item in value] if isinstance(value, list | tuple) else value


def _device(value: object) -> object:
    if not isinstance(value, str):
        return value
    fields = value.split(":")
    if len(fields) not in (2, 3) or not all(fields):
        return value
    return dict(zip(("host_path", "container_path", "mode"), fields, strict=False))


def _hyperparameters(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return {name: _hyperparameter(item) for name, item in value.items()}


def _hyperparameter(value: object) -> object:
    if not isinstance(value, Mapping):
        return {"type": "const", "val": value}
    return value if "type" in value else _hyperparameters(value)


def _labels(value: object) -> object:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return sorted(set(value))
    return value


def _log_policies(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    return without_duplicates(_log_policy(item) for item in value)


def _log_policy(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    action = value.get("action")
    if isinstance(action, Mapping) and set(action) == {"type"}:
        return {**value, "action": action["type"]}
    return value


_LIMITS = {"memory": _size}
_ENVIRONMENT = {
    "image": _by_device_type(str),
    "environment_variables": _by_device_type(list),
    # The documentation said `server` where the code read `serveraddress`: both are fine.
    "registry_auth": _renamed("server", "serveraddress"),
}
_RESOURCES = {
    "devices": _devices,
    "shm_size": _size,
    "min_gpu_memory": _size,
    "limits": _section(_LIMITS),
}
_EXPERIMENT = {
    "environment": _section(_ENVIRONMENT),
    "resources": _section(_RESOURCES),
    "hyperparameters": _hyperparameters,
    "labels": _labels,
    "log_policies": _log_policies,
}
_CONTAINER_DEFAULTS = {
    "registry_auth": _for_one_registry,
    "devices": _devices,
    "limits": _section(_LIMITS),
    "log_policies": _log_policies,
}
