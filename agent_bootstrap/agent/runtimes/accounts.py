"""The names of users and groups as a task sees them: the machine's, with the task's own in front."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

from agent_bootstrap.container_options import OsUser

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}\$?")
PASSWD, GROUP = "/etc/passwd", "/etc/group"
DEFAULT_SHELL = "/bin/bash"


def write_accounts(folder: Path, who: OsUser, home: str) -> list[tuple[Path, str]]:
    """Copies of passwd and group with `who`; (copy, what it replaces). An image without these files gets none."""
    user, group = _name(who.user, who.uid), _name(who.group, who.gid)
    shell = DEFAULT_SHELL if Path(DEFAULT_SHELL).exists() else "/bin/sh"
    lines = {
        PASSWD: (f"{user}:x:{who.uid}:{who.gid}::{_field(home)}:{shell}", str(who.uid), user),
        GROUP: (f"{group}:x:{who.gid}:", str(who.gid), group),
    }
    folder.mkdir(mode=0o700)
    made = []
    for path, (own, number, name) in lines.items():
        if not Path(path).is_file():
            continue
        copy = folder / Path(path).name
        text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
        others = [line for line in text.splitlines() if not _speaks_of(line, name, number)]
        copy.write_text("\n".join([own, *others, ""]), encoding="utf-8", errors="surrogateescape")
        copy.chmod(0o600)
        made.append((copy, path))
    return made


def supplementary_groups(who: OsUser) -> list[int]:
    """Of the account with this number on this machine, if its group is the one asked for; without one: none."""
    try:
        account = pwd.getpwuid(who.uid)
    except KeyError:
        return []
    return os.getgrouplist(account.pw_name, who.gid) if account.pw_gid == who.gid else []


def _name(name: str, number: int) -> str:
    return name if _NAME.fullmatch(name) else str(number)


def _field(text: str) -> str:
    return text if not set(text) & set(":\n") else "/"


def _speaks_of(line: str, name: str, number: str) -> bool:
    fields = line.split(":")
    return fields[0] == name or fields[2:3] == [number]
