"""What launches of interactive tasks are asked with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from master.api.http.file_bodies import FileBody
from master.api.request_models import Body, FreeObject, Int32, Text
from master.api.services import ApiContext
from master.auth.principal import Principal
from master.core.expconf.templates import Template
from master.core.visibility import Visibility
from windlass.base.formats.json_types import JsonMapping


class LaunchTask(Body):
    config: FreeObject = Field(default_factory=dict)
    template_name: Text = ""
    files: tuple[FileBody, ...] = ()
    workspace_id: Int32 = 0
    preview: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """A request, and who makes it."""

    api: ApiContext
    body: LaunchTask
    template: Template | None
    """The one that it names."""
    by: Principal
    visible: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a request comes to with what it names."""

    config: Mapping[str, Any]
    details: JsonMapping = field(default_factory=dict)
    """Kept with the task."""
