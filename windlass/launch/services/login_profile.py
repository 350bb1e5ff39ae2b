"""What login shells of a task begin with: in shells, and in terminals of JupyterLab."""

from __future__ import annotations

import shlex
from pathlib import Path

from windlass.launch.task_folder import is_own

PROFILES = (".bash_profile", ".bash_login", ".profile")
"""bash reads the first that is there."""
PROFILE = """\
# Logins keep the programs of this task: /etc/profile replaces PATH.
export PATH={path}
# What users are told, such as the end of its batch job.
if [ -t 1 ] && [ -e {greeting} ]; then cat {greeting}; fi
"""


def write_profile(home: Path, path: str, greeting: Path) -> None:
    """Where the home is the task's own folder, and nobody brought a profile. `path`: PATH of the task."""
    profiles = [home / name for name in PROFILES]
    if path and home.is_dir() and is_own(home) and not any(map(Path.exists, profiles)):
        text = PROFILE.format(path=shlex.quote(path), greeting=shlex.quote(str(greeting)))
        profiles[-1].write_text(text)


def write_greeting(file: Path, text: str) -> None:
    file.write_text(f"{text}\n")
