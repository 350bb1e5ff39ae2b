"""Where an agent that has joined keeps what it needs: those of root, or those of a user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from agent_bootstrap.agent.options import default_work_dir

UNIT = "windlass-agent.service"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPaths:
    config: Path
    """agent.yaml"""
    work_dir: Path
    unit: Path
    """The systemd unit."""
    is_user: bool
    """Its unit is one of the user's own systemd."""


def places(*, user: bool | None = None) -> AgentPaths:
    """Those of root, or of who asks; `user`: of who asks, also if that is root."""
    is_user = os.geteuid() != 0 if user is None else user
    if not is_user:
        return AgentPaths(
            config=Path("/etc/windlass/agent.yaml"),
            work_dir=default_work_dir(),
            unit=Path("/etc/systemd/system") / UNIT,
            is_user=False,
        )
    config = platformdirs.user_config_path()
    return AgentPaths(
        config=config / "windlass" / "agent.yaml",
        work_dir=platformdirs.user_state_path("windlass") / "agent",
        unit=config / "systemd" / "user" / UNIT,
        is_user=True,
    )


def joined_config(
    given: Path | None, master: str | None, environ: Mapping[str, str]
) -> Path | None:
    """Which agent.yaml counts: that which is given; without one, and without a master, that of `join`, if any."""
    if given is not None or master or environ.get("DET_MASTER") or environ.get("DET_MASTER_HOST"):
        return given
    own = places().config
    return own if own.exists() else None


def unread_config(given: Path | None, environ: Mapping[str, str]) -> str:
    """A warning where a variable keeps the agent.yaml of `join` from being read. Empty: none does."""
    own = places().config
    by = next((name for name in ("DET_MASTER", "DET_MASTER_HOST") if environ.get(name)), None)
    if given is not None or by is None or not own.exists():
        return ""
    return (
        f"{own} is not read, as the variable {by} names a master: unset it, or give --config-file"
    )
