"""Templates, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.paging import Pagination
from master.api.values import Timestamp
from windlass.base.formats.json_types import JsonObject


class Template(TypedDict):
    name: str
    config: JsonObject
    """As it was written; of another's without secrets."""
    workspaceId: int
    userId: int
    """Our own, as the next two: who may change it."""
    username: str
    modifiedAt: Timestamp


class TemplateReply(TypedDict):
    template: Template


class StoredTemplateReply(TemplateReply):
    configWarnings: list[str]
    """Our own: who cannot use it, in sentences."""


class TemplatesReply(TypedDict):
    templates: list[Template]
    pagination: Pagination
