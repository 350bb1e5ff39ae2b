"""What stands in for the programs that launchers call: it says how it was called, and starts ranks as they do."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence


def record() -> None:
    """One line in the log of the trial."""
    print("recorded", json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]), flush=True)  # noqa: PTH119


def ranks_command() -> list[str]:
    """What the launcher puts behind the options. The "--" between them does not get through its own wrapper."""
    return sys.argv[sys.argv.index("python3") :]


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def with_variables(variables: Mapping[str, object], command: Sequence[str]) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in variables.items()), *command]


def there(command: Sequence[str]) -> str:
    """For a shell on another node: in the directory that is this one's here."""
    return f"cd {shlex.quote(os.getcwd())} && {shlex.join(command)}"  # noqa: PTH109


def run_all(commands: Sequence[Sequence[str]]) -> int:
    """At the same time. The first exit code that is not 0."""
    running = [subprocess.Popen(command) for command in commands]
    return next((code for code in [one.wait() for one in running] if code), 0)
