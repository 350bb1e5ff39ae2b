"""What an operator on this machine says of its end, `windlass agent drain`: a file in the work_dir.

It holds until the machine restarts: by then it has gone, and has come back.
"""

from __future__ import annotations

import fcntl
import logging
import os
from datetime import datetime, time, timedelta
from pathlib import Path

from pydantic import ValidationError

from agent_bootstrap.protocol import Leaving, Message
from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.files import write_atomic
from windlass.base.processes import boot_id

FILE = "leaving.json"
LOCK = "agent.lock"
log = logging.getLogger(__name__)


class Announcement(Message):
    boot_id: str
    leaving: Leaving


def announce(work_dir: Path, leaving: Leaving) -> None:
    """Readable by the agent's user, whoever writes it.

    Raises InvalidArgument if no agent has had `work_dir`, Conflict if the machine goes sooner; OSError.
    """
    if not (work_dir / LOCK).exists():
        raise InvalidArgument(
            f"{work_dir} is not the directory of an agent: name that with --work-dir, as for `windlass agent run`"
        )
    sooner = announced(work_dir)
    if sooner is not None and sooner.waits and leaving.waits:
        return
    if sooner is not None and sooner.is_before(leaving):
        raise Conflict(
            f"This machine goes at {sooner.at.isoformat(sep=' ', timespec='minutes')} already: {sooner.reason}. "
            "A later call can only bring the time forward; --cancel takes it back"
        )
    said = Announcement(boot_id=boot_id(), leaving=leaving)
    write_atomic(work_dir / FILE, said.model_dump_json().encode(), mode=0o644, durable=True)


def withdraw(work_dir: Path) -> bool:
    """Take back what was announced. False: nothing was. Raises OSError."""
    try:
        (work_dir / FILE).unlink()
    except FileNotFoundError:
        return False
    return True


def announced(work_dir: Path) -> Leaving | None:
    """Nothing of an earlier boot counts."""
    try:
        said = Announcement.model_validate_json((work_dir / FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.warning("%s cannot be read: %s", work_dir / FILE, type(error).__name__)
        return None
    return said.leaving if said.boot_id == boot_id() else None


def is_running(work_dir: Path) -> bool:
    """Whether an agent has this work_dir."""
    try:
        lock = os.open(work_dir / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def parse_time(text: str, now: datetime) -> datetime:
    """`18:00`, the next one on this machine's clock, or a date and time, with a zone or this machine's.

    `now` has a zone. Raises InvalidArgument.
    """
    try:
        if len(text) <= len("18:00"):
            clock = time.fromisoformat(text)
            # A time without a zone is this machine's, in summer and in winter.
            today = now.astimezone().date()
            days = (datetime.combine(today + timedelta(days=n), clock).astimezone() for n in (0, 1))
            return next(at for at in days if at > now)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, StopIteration):
        raise InvalidArgument(
            f'--at: "{text}" is not a time: write 18:00, 2026-01-31T18:00 or 2026-01-31T18:00+01:00'
        ) from None
