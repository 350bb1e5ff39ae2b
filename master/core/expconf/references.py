"""The master's own secrets in configurations of users are references, resolved when a task starts.

    secret_key: ${master.yaml:checkpoint_storage.secret_key}
    environment_variables: {cuda: ["TOKEN=${master.yaml:environment_variables.cuda.TOKEN}"]}

So none of them is stored with a submission or shown with it, and what master.yaml says now is what the next task gets.
A task is given all of these secrets of its pool in any case: a user who writes a reference learns nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from master.core.expconf.parsing.normalise import DEVICE_TYPES, normalise_container_defaults
from master.core.expconf.reading import ClusterDefaults
from master.core.expconf.secrets import REFERENCE, is_reference, replaced

_START, _END = REFERENCE, "}"
_VARIABLES = "environment_variables"
_STORAGE = "checkpoint_storage"
_S3_SECRETS = ("access_key", "secret_key")
_STORAGE_SECRETS = (*_S3_SECRETS, "connection_string", "credential")
_REGISTRY_SECRETS = ("password", "auth", "identitytoken", "registrytoken")


@dataclass(frozen=True, slots=True)
class PoolSecrets:
    """What references of one pool's tasks stand for."""

    values: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    """None: master.yaml says that there is none now."""

    def resolved(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A complete configuration as its task is given it."""
        return replaced(document, self._resolve)

    def storage_referring(self, storage: Mapping[str, Any]) -> dict[str, Any]:
        """The other way: the storage that a task was given, as it is stored. A user's own secrets stay."""
        references = {
            secret: reference
            for reference, secret in self.values.items()
            if reference.startswith(f"{_START}{_STORAGE}.")
        }
        return replaced(storage, lambda secret: references.get(secret, secret))

    def _resolve(self, secret: Any) -> Any:
        if not isinstance(secret, str) or not is_reference(secret):
            return secret
        # A variable that master.yaml has no more is none; a key that it has no more says so where it is used.
        gone = None if secret.startswith(f"{_START}{_VARIABLES}.") else secret
        return self.values.get(secret, gone)


def take_secrets(defaults: ClusterDefaults) -> tuple[ClusterDefaults, PoolSecrets]:
    """What lies under users' configurations, with references in the place of its secrets; and those secrets."""
    containers = normalise_container_defaults(defaults.task_container_defaults)
    values: dict[str, str | None] = {}

    def taken(place: str, section: Any, keys: tuple[str, ...]) -> Any:
        if not isinstance(section, Mapping):
            return section
        found = {key: section[key] for key in keys if isinstance(section.get(key), str)}
        values.update({_reference(place, key): secret for key, secret in found.items()})
        return {**section, **{key: _reference(place, key) for key in found}}

    if "registry_auth" in containers:
        containers["registry_auth"] = taken(
            "registry_auth", containers["registry_auth"], _REGISTRY_SECRETS
        )
    if isinstance(variables := containers.get(_VARIABLES), Mapping):
        lines = {kind: list(_lines(kind, variables.get(kind), values)) for kind in DEVICE_TYPES}
        containers[_VARIABLES] = {**variables, **lines}
    if defaults.checkpoint_storage.get("type") == "s3":
        # Without keys: what the machine may. Work that was submitted with keys may now do the same.
        values.update({_reference(_STORAGE, key): None for key in _S3_SECRETS})
    storage = taken(_STORAGE, defaults.checkpoint_storage, _STORAGE_SECRETS)
    referring = replace(defaults, task_container_defaults=containers, checkpoint_storage=storage)
    return referring, PoolSecrets(values)


def _lines(kind: str, lines: Any, values: dict[str, str | None]) -> Iterator[Any]:
    for line in lines if isinstance(lines, list | tuple) else ():
        name, _, value = line.partition("=")
        if not value:
            yield line
            continue
        reference = _reference(f"{_VARIABLES}.{kind}", name)
        values[reference] = value
        yield f"{name}={reference}"


def _reference(place: str, key: str) -> str:
    return f"{_START}{place}.{key}{_END}"
