"""What of the configuration of a notebook its launcher needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

from windlass.base.formats.durations import parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookSettings:
    description: str = "JupyterLab"
    idle_type: str = "kernels_or_terminals"
    idle_timeout: timedelta = timedelta(0)
    """Zero: it is never idle."""
    kept: tuple[str, ...] = ()
    """Mounted folders that it may write to."""

    @classmethod
    def from_config(cls, text: str) -> NotebookSettings:
        """`text`: NOTEBOOK_CONFIG, which the master writes."""
        config = json.loads(text)
        return cls(
            description=config["description"],
            idle_type=config["notebook_idle_type"],
            idle_timeout=parse_duration(config["idle_timeout"] or "0"),
            kept=tuple(
                mount["container_path"] for mount in config["bind_mounts"] if not mount["read_only"]
            ),
        )
