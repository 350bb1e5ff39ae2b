"""The effective configuration as it may be shown."""

from __future__ import annotations

import re
from typing import Any

from master.config.model import MasterConfig

MASK = "********"
_SECRET_KEYS = frozenset(
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
        "startup_script",
        "container_startup_script",
    }
)
"""By name, wherever they stand: a section that is added later is masked without anyone thinking of it."""
_URL_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):[^@\s]*@")


def masked(config: MasterConfig) -> dict[str, Any]:
    """Every setting with its effective value, JSON-able, secrets as `********`."""
    document = config.model_dump(mode="json", by_alias=True)
    tls = document["security"]["tls"]
    tls["key"] = MASK if tls["key"] else ""
    shown: dict[str, Any] = _mask(document)
    return shown


def _mask(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: MASK if key in _SECRET_KEYS and isinstance(item, str) and item else _mask(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_mask(item) for item in value]
    if isinstance(value, str):
        return _URL_PASSWORD.sub(rf"\1:{MASK}@", value)
    return value
