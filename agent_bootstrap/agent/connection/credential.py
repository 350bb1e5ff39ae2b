"""What the agent proves itself with: made by itself, once, and kept in its work_dir, readable by its user only."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from windlass.base.errors import InvalidConfig
from windlass.base.files import write_atomic

CREDENTIAL_FILE = "credential"
_RANDOM_BYTES = 32


def load_or_create(work_dir: Path) -> str:
    """On disk before it is shown to anybody: the master binds it to this agent. Raises InvalidConfig."""
    path = work_dir / CREDENTIAL_FILE
    try:
        found = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        made = secrets.token_urlsafe(_RANDOM_BYTES)
        write_atomic(path, made.encode() + b"\n", durable=True)
        return made
    if re.fullmatch(r"[A-Za-z0-9_-]{32,128}", found) is None:
        raise InvalidConfig(
            [
                f"{path} is damaged: remove it, and give the agent a join token of its own "
                "(windlass master join-token create POOL --agent AGENT_ID)"
            ],
            what="agent options",
        )
    return found
