"""Words of agent.yaml about the metadata service."""

from __future__ import annotations

from enum import StrEnum


class Cloud(StrEnum):
    """Whose machine this is."""

    AWS = "aws"
    GCP = "gcp"


class TaskMetadata(StrEnum):
    DIRECT = "direct"
    """Tasks may ask the service, and so all that the machine's role may do, they may."""
    STORAGE = "storage"
    """The agent gives them credentials for their storage."""
    NONE = "none"
