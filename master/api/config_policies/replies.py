"""Config policies, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from windlass.base.formats.json_types import JsonObject


class ConfigPoliciesReply(TypedDict):
    configPolicies: JsonObject
    """As it was written, `{}` if there is none; without secrets for those who may not change it."""


class StoredConfigPoliciesReply(ConfigPoliciesReply):
    affected: list[str]
    """Our own: work that waits or runs and is not as the policy says, in sentences. It stays as it is."""
