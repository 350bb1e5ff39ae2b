"""Names for JSON whose content is somebody else's affair: configurations, hyperparameters, metrics, metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
JsonMapping: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""
