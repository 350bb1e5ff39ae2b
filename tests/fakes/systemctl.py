"""A `systemctl --user` that runs the one unit of a home folder: what systemd would do, without systemd.

$HOME/.systemd/{pid,calls,broken,agent.log}. What is in `broken` fails.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HOME = Path(os.environ["HOME"])
STATE = HOME / ".systemd"
UNIT = HOME / ".config/systemd/user/windlass-agent.service"


def start() -> None:
    line = next(t for t in UNIT.read_text().splitlines() if t.startswith("ExecStart="))
    with (STATE / "agent.log").open("ab") as log:
        agent = subprocess.Popen(
            shlex.split(line.removeprefix("ExecStart=")),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (STATE / "pid").write_text(str(agent.pid))


def running() -> int | None:
    try:
        pid = int((STATE / "pid").read_text())
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else pid


def stop() -> None:
    while (pid := running()) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.02)


def main() -> int:
    STATE.mkdir(exist_ok=True)
    words = [word for word in sys.argv[1:] if word != "--user"]
    with (STATE / "calls").open("a") as calls:
        print(*words, file=calls)
    broken = STATE / "broken"
    if broken.exists() and words[0] in broken.read_text().split():
        print(f"Failed to {words[0]}: it is broken", file=sys.stderr)
        return 1
    match words:
        case ["start", _]:
            if running() is None:
                start()
        case ["restart", _]:
            stop()
            start()
        case ["disable", "--now", _]:
            stop()
        case ["is-active", _]:
            print("inactive" if running() is None else "active")
    return 0


if __name__ == "__main__":
    sys.exit(main())
