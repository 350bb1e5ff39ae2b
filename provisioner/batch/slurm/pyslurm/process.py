"""The process that has pyslurm: started when it is needed, and again when it ended or stood still."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import COMMAND_LIMIT_S
from windlass.base.errors import WindlassError

IMPORT_LIMIT_S = 75.0
"""Without a configuration of Slurm its import ends the process, after a minute."""
_MODULE = "provisioner.batch.slurm.pyslurm.child"


class NotUsable(WindlassError):
    """pyslurm is not there, not for this site, or not one that we know."""

    code = "pyslurm_not_usable"


class PyslurmProcess:
    """Blocking, for any thread; one call at a time."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        import_limit_s: float = IMPORT_LIMIT_S,
        limit_s: float = COMMAND_LIMIT_S,
    ) -> None:
        self._environ = dict(environ)
        self._import_limit_s = import_limit_s
        self._limit_s = limit_s
        self._running: _Running | None = None
        self._turn = threading.Lock()

    def version(self) -> str:
        """Of pyslurm; then it runs. Raises NotUsable."""
        with self._turn:
            return self._started().version

    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """All of the site. Raises NotUsable; NoAnswer: then nothing is known."""
        with self._turn:
            answer, why = self._started().ask("jobs", self._limit_s)
        if answer is None:
            raise NoAnswer(f"pyslurm's process {why}")
        if "problem" in answer:
            raise NotUsable(str(answer["problem"]))
        if "failed" in answer:
            raise NoAnswer(f"pyslurm: {answer['failed']}")
        return [job for job in answer.get("jobs", ()) if isinstance(job, dict)]

    def close(self) -> None:
        """A call that waits ends; the next one starts another."""
        if (running := self._running) is not None:
            running.kill()
        with self._turn:
            if self._running is not None:
                self._running.end()
                self._running = None

    def _started(self) -> _Running:
        if self._running is not None and self._running.version and not self._running.has_ended:
            return self._running
        running = self._running = _Running(self._environ)
        first, why = running.ask("", self._import_limit_s)
        if first is None:
            raise NotUsable(f"its import {why}")
        if "version" not in first:
            running.end()
            raise NotUsable(str(first.get("problem", "it says nothing of its version")))
        running.version = str(first["version"])
        return running


class _Running:
    """One process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.version = ""
        self._said = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=environ,
            start_new_session=True,
        )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, question: str, limit_s: float) -> tuple[Mapping[str, Any] | None, str]:
        """An answer, or none and why: then the process has ended."""
        stood_still = threading.Event()

        def give_up() -> None:
            stood_still.set()
            self.kill()

        timer = threading.Timer(limit_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            answer = self._exchange(question)
        finally:
            timer.cancel()
        if answer is not None and not stood_still.is_set():
            return answer, ""
        said = self.end()
        if stood_still.is_set():
            return None, f"ended: it stood still for {limit_s:g} s"
        return None, f"ended: {said}" if said else "ended without a word"

    def kill(self) -> None:
        """From any thread; one that has ended is passed by."""
        self._process.kill()

    def end(self) -> str:
        """What it said last."""
        self.kill()
        with self._process:  # closes its streams, and waits
            pass
        if self._said.closed:
            return ""
        with self._said as said:
            said.seek(0)
            lines = [line.strip() for line in said.read().decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    def _exchange(self, question: str) -> Mapping[str, Any] | None:
        given, told = self._process.stdin, self._process.stdout
        if given is None or told is None:
            return None
        with suppress(OSError, ValueError):
            self._said.truncate(0)
            if question:
                given.write(f"{question}\n".encode())
                given.flush()
            answer = json.loads(told.readline())
            return answer if isinstance(answer, dict) else None
        return None
