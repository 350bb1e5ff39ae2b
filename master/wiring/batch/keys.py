"""What sections of slurm and pbs say of ways to the master, and of the folder of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provisioner.sections.batch import BatchSection
from windlass.base.errors import InvalidConfig

OF_RELAY = frozenset({"relay", "srun", "files"})
"""These need one on the login node."""
ALL_CHANNELS = {
    "slurm": ("direct", "relay", "ssh", "srun", "files"),
    "pbs": ("direct", "relay", "ssh", "files"),
}


def channels_of(section: BatchSection, url: str) -> Sequence[str]:
    """Ways to the master, in the order in which nodes try them. Raises InvalidConfig."""
    if section.channels is None:
        return ALL_CHANNELS[section.type] if url.startswith("https:") else ("direct",)
    for name in section.channels:
        if name != "direct" and not url.startswith("https:"):
            problem = (
                f"resource_pools: channels: {name} needs TLS, for others share the way to {url}: set "
                "security.tls.self_signed: true"
            )
            raise InvalidConfig([problem], what="master configuration")
    return section.channels or ("direct",)


def keys_of_ways(section: BatchSection, url: str) -> dict[str, Any]:
    """Of agent.yaml. None where there is the network alone: agents of earlier versions do not know them."""
    channels = channels_of(section, url)
    if list(channels) == ["direct"]:
        return {}
    login = {"ssh_login": section.login_host} if section.login_host else {}
    return {"channels": list(channels), **login}


def jobs_root(section: BatchSection, data_dir: Path) -> Path:
    return Path(section.job_storage_root or data_dir.absolute() / "jobs")
