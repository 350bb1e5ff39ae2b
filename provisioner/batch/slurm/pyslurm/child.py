"""`python -m provisioner.batch.slurm.pyslurm.child`: lines of JSON in, lines of JSON out.

First it says which pyslurm it has, or why none. Then each line that it reads is answered with all jobs, or with what
went wrong. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

FIELDS = (
    *("id", "name", "state", "state_reason", "user_name", "account", "partition"),
    *("allocated_nodes", "num_nodes", "submit_time", "start_time", "end_time"),
    *("array_id", "array_task_id"),
)
"""Of a job. Its exit code is not among them: pyslurm folds it to seven bits."""


def main() -> None:
    with _answers() as out:
        try:
            import pyslurm  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError as error:
            _say(out, {"problem": f"it cannot be imported: {error}"})
            return
        _say(out, {"version": str(getattr(pyslurm, "__version__", ""))})
        for _ in sys.stdin:
            _say(out, _jobs(pyslurm))


def _answers() -> TextIO:
    """What was standard output: libraries that print there must not disturb the answers."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def _say(out: TextIO, answer: dict[str, Any]) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()


def _jobs(pyslurm: Any) -> dict[str, Any]:
    try:
        found = pyslurm.Jobs.load().values()
        return {"jobs": [{field: getattr(job, field) for field in FIELDS} for job in found]}
    except AttributeError as error:
        return {"problem": f"it is another pyslurm than the master knows: {error}"}
    except Exception as error:  # noqa: BLE001 - whatever it raises, the master must be told
        return {"failed": str(error) or type(error).__name__}


if __name__ == "__main__":
    main()
