"""The password that `admin` and `determined` begin with if master.yaml gives none: random, in a file."""

from __future__ import annotations

import secrets
from pathlib import Path

import structlog

from windlass.base.errors import InvalidConfig
from windlass.base.files import write_atomic

log = structlog.get_logger(__name__)

FILE = "initial-password"
"""Below the data folder; only its owner may read it."""


def first_password(data_dir: Path) -> str:
    """What the file says, made (mode 0600) if there is none. Blocking; for the start of the master."""
    path = data_dir / FILE
    if not path.exists():
        write_atomic(path, _random().encode() + b"\n", durable=True)
    password = path.read_text().strip()
    if not password:
        raise InvalidConfig([f"{path} is empty: remove it, or write a password into it"])
    log.info("the first password of admin and determined is in a file", file=str(path))
    return password


def _random() -> str:
    """96 bits, with what the published client asks of passwords."""
    return f"{secrets.token_urlsafe(12)}-Aa1"
