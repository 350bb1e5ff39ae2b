"""Runs inside of a task and tries everything that a task must not be able to do, and what it must.

usage: probe.py FACTS (JSON)        prints ANSWER and, as JSON, [row, "ok" | "skipped: why" | what was wrong]

Standard library only.
"""

from __future__ import annotations

import json
import subprocess
from importlib import import_module

from rows import ROWS, Skip

for subject in ("system_calls", "files_and_rights", "processes_and_limits", "normal_work"):
    import_module(subject)  # fills ROWS; work comes last, as it leaves files open


def main() -> None:
    answers = {}
    for name, run in ROWS.items():
        try:
            answers[name] = run()
        except Skip as reason:
            answers[name] = f"skipped: {reason}"
        except Exception as error:  # noqa: BLE001
            answers[name] = f"{type(error).__name__}: {error}"[:300]
            if isinstance(error, subprocess.CalledProcessError):
                answers[name] += f" {error.stderr}"[:500]
    for answer in answers.items():  # a line each: long ones would be cut
        print("ANSWER " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
