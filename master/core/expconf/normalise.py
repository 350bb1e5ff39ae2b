"""Short and old forms brought to the current one, on raw documents.

Values of a wrong type are left as they are: the models complain about them later, all at once. Applying this twice
is the same as once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from master.core.expconf.log_policies import without_duplicates
from windlass.base.image_reference import DEFAULT_REGISTRY
from windlass.base.sizes import parse_size

DEVICE_TYPES = ("cpu", "cuda", "rocm")


def normalise(document: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment configuration in current form. The argument is not changed."""
    result = dict(document)
    _each(result, "environment", _environment)
    _each(result, "resources", _resources)
    _each(result, "hyperparameters", _hyperparameters)
    _each(result, "labels", _labels)
    _each(result, "log_policies", _log_policies)
    return result


def normalise_container_defaults(document: Mapping[str, Any]) -> dict[str, Any]:
    """A `task_container_defaults` section in current form.

    A login of the cluster's that names no registry is for Docker Hub, as for Docker itself: a user's own image may be
    anywhere.
    """
    result = _environment(dict(document))
    _each(result, "registry_auth", _for_one_registry)
    _each(result, "devices", _devices)
    _each(result, "limits", _limits)
    _each(result, "log_policies", _log_policies)
    return dict(result)


def _each(document: dict[str, Any], key: str, change: Callable[[Any], Any]) -> None:
    if document.get(key) is not None:
        document[key] = change(document[key])


def _environment(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    result = dict(value)
    _each(result, "image", _by_device_type(str))
    _each(result, "environment_variables", _by_device_type(list))
    _each(result, "registry_auth", _registry_auth)
    return result


def _by_device_type(short_form: type) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        if isinstance(value, short_form):
            return dict.fromkeys(DEVICE_TYPES, value)
        if not isinstance(value, Mapping) or "gpu" not in value:
            return value
        result = dict(value)
        gpu = result.pop("gpu")
        if result.get("cuda") is None:
            result["cuda"] = gpu
        return result

    return change


def _registry_auth(value: Any) -> Any:
    """The documentation said `server` where the code read `serveraddress`: both are fine."""
    if not isinstance(value, Mapping) or "server" not in value:
        return value
    result = dict(value)
    server = result.pop("server")
    if result.get("serveraddress") is None:
        result["serveraddress"] = server
    return result


def _for_one_registry(value: Any) -> Any:
    if not isinstance(value, Mapping) or value.get("serveraddress"):
        return value
    return {**value, "serveraddress": DEFAULT_REGISTRY}


def _resources(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    result = dict(value)
    _each(result, "devices", _devices)
    for key in ("shm_size", "min_gpu_memory"):
        if isinstance(size := result.get(key), str):
            parsed = parse_size(size)
            result[key] = size if parsed is None else parsed
    _each(result, "limits", _limits)
    return result


def _limits(value: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(memory := value.get("memory"), str):
        return value
    parsed = parse_size(memory)
    return {**value, "memory": memory if parsed is None else parsed}


def _devices(value: Any) -> Any:
    return [_device(item) for item in value] if isinstance(value, list | tuple) else value


def _device(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    fields = value.split(":")
    if len(fields) not in (2, 3) or not all(fields):
        return value
    return dict(zip(("host_path", "container_path", "mode"), fields, strict=False))


def _hyperparameters(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: _hyperparameter(item) for name, item in value.items()}


def _hyperparameter(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return {"type": "const", "val": value}
    return value if "type" in value else _hyperparameters(value)


def _labels(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return sorted(set(value))
    return value


def _log_policies(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    return without_duplicates(_log_policy(item) for item in value)


def _log_policy(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    action = value.get("action")
    if isinstance(action, Mapping) and set(action) == {"type"}:
        return {**value, "action": action["type"]}
    return value
