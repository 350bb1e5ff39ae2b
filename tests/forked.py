"""Commands of ours in forks of a process that has imported them already: most of what a start of a master costs.

The process is the same otherwise: with an environment, a session and files of its own, and no thread or socket of ours.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

WHAT_MASTERS_IMPORT = ("master.serve", "master.cli", "windlass.cli.main", "uvicorn.loops.auto")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(WHAT_MASTERS_IMPORT))


class Forked:
    """`windlass WORDS`, with all output at the end of a file. It is used as a Popen is."""

    def __init__(self, words: Sequence[str], output: Path, errors: Path | None = None) -> None:
        """`errors`: where these go; None: into the output."""
        files = (output, errors or output)
        self._words = words
        self._process = _context.Process(target=_run, args=(words, files, dict(os.environ)))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """How it ended; the negative of a signal."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(list(self._words), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def output_of(*words: str) -> bytes:
    """What `windlass WORDS` writes. Raises CalledProcessError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        code = Forked(words, output, errors).wait()
        if code != 0:
            raise subprocess.CalledProcessError(
                code, words, output.read_bytes(), errors.read_bytes()
            )
        return output.read_bytes()


def _run(words: Sequence[str], files: tuple[Path, Path], environment: dict[str, str]) -> None:
    os.setsid()
    for number, path in enumerate(files, 1):
        written = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(written, number)
        os.close(written)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["windlass", *words]
    gc.freeze()  # what was imported is shared, and no garbage

    from windlass.cli.main import run

    run()
