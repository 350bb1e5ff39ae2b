"""What a run is told when it starts, and its metadata."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from windlass.base.json_types import JsonObject


class StartedRunReply(TypedDict):
    storageId: NotRequired[int]


class RunMetadataReply(TypedDict):
    metadata: JsonObject | None
