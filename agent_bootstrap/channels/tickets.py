"""How a node shows a relay that it is of a job of its master: by the token of that job, which is never sent.

    relay   windlass-relay 1 NONCE
    node    JOB/NODE HMAC(token, NONCE JOB/NODE)
    relay   ok | no REASON            and from then on bytes, to the master's port and to no other

The token lies in the directory of the job, which relay and node see: it is good until that is removed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from pathlib import Path
from typing import Any

GREETING = "windlass-relay 1"
NOTICE = "relay.json"
"""In the folder of the jobs: where the relay is."""
MAX_LINE = 1024
_NAME = re.compile(r"(?P<job>[A-Za-z0-9][A-Za-z0-9._-]{0,199})/(?P<node>\d{1,6})")


def nonce() -> str:
    return secrets.token_hex(16)


def ticket(name: str, token: str, nonce_: str) -> str:
    """The node's line."""
    return f"{name} {_mac(name, token, nonce_)}"


def is_good(line: str, root: Path, nonce_: str) -> bool:
    """Whether it is of a node of a job that has its directory in `root`. Blocks."""
    name, _, given = line.partition(" ")
    told = node_folder(root, name)
    if told is None:
        return False
    try:
        token = token_in(told)
    except (OSError, ValueError):
        return False
    return bool(token) and hmac.compare_digest(given.encode(), _mac(name, token, nonce_).encode())


def node_folder(root: Path, name: str) -> Path | None:
    """JOB/NODE -> its folder. None: it is no such name."""
    found = _NAME.fullmatch(name)
    return None if found is None else root / found["job"] / "nodes" / found["node"]


def name_of(folder: Path) -> str:
    """The folder of a node -> JOB/NODE."""
    return f"{folder.parents[1].name}/{folder.name}"


def token_in(folder: Path) -> str:
    """What the agent of that node joins with. Raises OSError, ValueError."""
    told: Any = json.loads((folder / "host.json").read_bytes())
    try:
        return str(told["agent"]["join_token"])
    except (KeyError, TypeError):
        raise ValueError("no token") from None


def _mac(name: str, token: str, nonce_: str) -> str:
    return hmac.new(token.encode(), f"{nonce_} {name}".encode(), hashlib.sha256).hexdigest()
