"""Stands in for pyslurm, as it was recorded to behave: 25.11.2, and 22.5.3. STANDIN says how it fails."""

from __future__ import annotations

import json
import os
import signal
from types import SimpleNamespace

_HOW = os.environ.get("STANDIN", "")
__version__ = os.environ.get("STANDIN_VERSION", "25.11.2")


class PyslurmError(Exception):
    pass


class RPCError(PyslurmError):
    def __init__(self, msg: str, errno: int) -> None:
        super().__init__(msg)
        self.msg, self.errno = msg, errno


def _stand_still() -> None:
    """Neither TERM nor the end of input ends it, for it holds the interpreter."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.pause()


if _HOW == "no configuration":
    # exit() of the C library: no exception, and no `finally`.
    os.write(2, b"python3: fatal: Unable to process configuration file\n")
    os._exit(1)
if _HOW == "import stands still":
    _stand_still()


class Jobs(dict[int, SimpleNamespace]):
    @staticmethod
    def load() -> Jobs:
        os.write(1, b"python3: error: printed to standard output by the library\n")
        if _HOW == "controller down":
            raise RPCError("Unable to contact slurm controller (connect failure)", 1800)
        if _HOW == "stands still":
            _stand_still()
        if _HOW == "ends":
            os._exit(139)
        jobs = json.loads(os.environ["STANDIN_JOBS"])
        return Jobs({job["id"]: SimpleNamespace(**job) for job in jobs})


if _HOW == "other names":
    del Jobs
