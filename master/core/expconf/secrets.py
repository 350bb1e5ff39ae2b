"""What of a configuration is secret, and the configuration without it, wherever one is shown.

Secrets are known by the key they stand under, so that a section that is added later is masked without anyone thinking
of it. Keys stay, and so do the names of environment variables: a reader sees what is set, and not to what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

MASK = "********"
REFERENCE = "${master.yaml:"
"""How a reference to a secret of the master begins: see `references`."""
SECRET_KEYS = frozenset(
    {
        "password",
        "initial_user_password",
        "signing_key",
        "segment_master_key",
        "segment_webui_key",
        "jwt_key",
        "access_key",
        "secret_key",
        "connection_string",
        "credential",
        "auth",
        "identitytoken",
        "registrytoken",
        "token",
        "startup_script",
        "machine_script",
        "container_startup_script",
    }
)
_VARIABLES = "environment_variables"
_POD_VARIABLES = "env"
_URL_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):[^@\s]*@")
_URL_SIGNATURE = re.compile(r"(?<=[?&]sig=)[^&\s]+")

Change: TypeAlias = Callable[[Any], Any]
"""From a secret to what stands in its place. None for the value of a variable leaves the variable out."""


def masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration, JSON-able, with every secret as `********`."""
    return _Walk(lambda secret: MASK, without_passwords).section(document)


def replaced(document: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """A copy of a configuration with every secret changed."""
    return _Walk(change, lambda text: text).section(document)


def holds_mask(document: Mapping[str, Any]) -> bool:
    """Whether a secret is the mask itself: its writer submits what was shown of another's configuration."""
    seen: list[Any] = []

    def look(secret: Any) -> Any:
        seen.append(secret)
        return secret

    replaced(document, look)
    return MASK in seen


def values(document: Mapping[str, Any]) -> set[str]:
    """Every secret in a configuration that is text."""
    found: set[str] = set()

    def look(secret: Any) -> Any:
        if isinstance(secret, str):
            found.add(secret)
        return secret

    replaced(document, look)
    return found


def is_reference(secret: str) -> bool:
    return secret.startswith(REFERENCE)


def without_passwords(text: str) -> str:
    """Without those in URLs."""
    if "://" not in text:
        return text
    return _URL_SIGNATURE.sub(MASK, _URL_PASSWORD.sub(rf"\1:{MASK}@", text))


class _Walk:
    """Copies a document; secrets go through one function, all other text through another."""

    def __init__(self, secret: Change, text: Callable[[str], str]) -> None:
        self._secret = secret
        self._text = text

    def section(self, document: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._under(key, value) for key, value in document.items()}

    def _under(self, key: str, value: Any) -> Any:
        if key in SECRET_KEYS and _is_set(value):
            return self._secret(value)
        if key == _VARIABLES:
            return self._variables(value)
        if key == _POD_VARIABLES and isinstance(value, list | tuple):
            return [self._pod_variable(item) for item in value]
        return self._any(value)

    def _any(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self.section(value)
        if isinstance(value, list | tuple):
            return [self._any(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _variables(self, value: Any) -> Any:
        """`NAME=VALUE` lines: one list, or one by the kind of slot."""
        if isinstance(value, Mapping):
            return {kind: self._variables(lines) for kind, lines in value.items()}
        return list(self._lines(value)) if isinstance(value, list | tuple) else value

    def _lines(self, lines: Iterable[Any]) -> Iterable[Any]:
        for line in lines:
            name, equals, secret = line.partition("=") if isinstance(line, str) else (line, "", "")
            if not secret:
                yield line
            elif (changed := self._secret(secret)) is not None:
                yield f"{name}{equals}{changed}"

    def _pod_variable(self, item: Any) -> Any:
        """As Kubernetes has them: `{name, value}`."""
        if isinstance(item, Mapping) and _is_set(item.get("value")):
            return {**self.section(item), "value": self._secret(item["value"])}
        return self._any(item)


def _is_set(value: Any) -> bool:
    """A value, and not nothing, a switch or a section."""
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
