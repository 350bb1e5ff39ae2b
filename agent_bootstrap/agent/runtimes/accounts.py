"""The names of users and groups as a task sees them: the machine's, with the task's own in front."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path

from agent_bootstrap.container_options import OsUser

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}\$?")
PASSWD, GROUP = "/etc/passwd", "/etc/group"
TTY = "tty:"
DEFAULT_SHELL, FALLBACK_SHELL = "/bin/bash", "/bin/sh"
NO_SHELLS = frozenset({"/sbin/nologin", "/usr/sbin/nologin", "/bin/false", "/usr/bin/false"})


def write_accounts(folder: Path, who: OsUser, home: str) -> list[tuple[Path, str]]:
    """Copies of the machine's passwd and group with `who`; (copy, what it replaces)."""
    originals = {
        path: Path(path).read_text(encoding="utf-8", errors="surrogateescape")
        for path in (PASSWD, GROUP)
        if Path(path).is_file()
    }
    shell = DEFAULT_SHELL if Path(DEFAULT_SHELL).exists() else FALLBACK_SHELL
    return write_copies(folder, with_account(originals, who, home, shell))


def with_account(
    originals: Mapping[str, str], who: OsUser, home: str, shell: str = ""
) -> dict[str, str]:
    """Texts of passwd and group, by path, with `who` in front. Pure. `shell` empty: as that of root, for images.

    Without the group `tty`: sshd gives a terminal to it, which it may not where the namespace of the task has no such
    group, and else to the group of who logs in.
    """
    user, group = _name(who.user, who.uid), _name(who.group, who.gid)
    shell = shell or _shell_of_root(originals.get(PASSWD, ""))
    own = {
        PASSWD: (f"{user}:x:{who.uid}:{who.gid}::{_field(home)}:{shell}", str(who.uid), user),
        GROUP: (f"{group}:x:{who.gid}:", str(who.gid), group),
    }
    changed = {}
    for path, text in originals.items():
        line, number, name = own[path]
        others = [
            other
            for other in text.splitlines()
            if not _speaks_of(other, name, number) and not (path == GROUP and other.startswith(TTY))
        ]
        changed[path] = "\n".join([line, *others, ""])
    return changed


def write_copies(folder: Path, texts: Mapping[str, str]) -> list[tuple[Path, str]]:
    """(copy, what it replaces)."""
    folder.mkdir(mode=0o700)
    made = []
    for path, text in texts.items():
        copy = folder / Path(path).name
        copy.write_text(text, encoding="utf-8", errors="surrogateescape")
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


def _shell_of_root(passwd: str) -> str:
    for line in passwd.splitlines():
        match line.split(":"):
            case ["root", *_, shell] if shell.startswith("/") and shell not in NO_SHELLS:
                return shell
    return FALLBACK_SHELL


def _name(name: str, number: int) -> str:
    return name if _NAME.fullmatch(name) else str(number)


def _field(text: str) -> str:
    return text if not set(text) & set(":\n") else "/"


def _speaks_of(line: str, name: str, number: str) -> bool:
    fields = line.split(":")
    return fields[0] == name or fields[2:3] == [number]
