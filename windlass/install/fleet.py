"""Many machines at once, with a line for each that says how far it is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Protocol

import typer

from windlass.install.hosts import SshHost
from windlass.install.steps import InstallOutcome, InstallResult, InstallStep, Tell

MAX_LIVE = 40
"""Machines for which a terminal shows a line each; more are told as they end."""

Work = Callable[[SshHost, Tell], InstallOutcome]


class InstallProgress(Protocol):
    def at(self, host: str, step: InstallStep) -> None: ...

    def ended(self, outcome: InstallOutcome) -> None: ...


def run_on_all(
    hosts: Sequence[SshHost], work: Work, progress: InstallProgress, *, parallel: int
) -> tuple[InstallOutcome, ...]:
    """In the order of `hosts`. One machine's failure is its own."""

    def one(host: SshHost) -> InstallOutcome:
        return work(host, lambda step: progress.at(host.spec, step))

    with ThreadPoolExecutor(
        max_workers=min(parallel, len(hosts)), thread_name_prefix="ssh"
    ) as pool:
        running = {pool.submit(one, host): host for host in hosts}
        for done in as_completed(running):
            progress.ended(done.result())
        return tuple(done.result() for done in running)


class PlainProgress:
    """A line for each machine that is through, on stderr."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def at(self, host: str, step: InstallStep) -> None:
        if step in (InstallStep.INSTALL, InstallStep.JOIN, InstallStep.LEAVE):
            self._say(f"{host}: {step}")

    def ended(self, outcome: InstallOutcome) -> None:
        self._say(f"{outcome.host}: {in_words(outcome)}")

    def _say(self, text: str) -> None:
        with self._lock:
            typer.echo(text, err=True)


class LiveProgress:
    """A table on a terminal that changes in place."""

    def __init__(self, hosts: Sequence[SshHost]) -> None:
        self._lock = threading.Lock()
        self._lines = {host.spec: str(InstallStep.WAIT) for host in hosts}

    def at(self, host: str, step: InstallStep) -> None:
        with self._lock:
            self._lines[host] = f"{step} ..."

    def ended(self, outcome: InstallOutcome) -> None:
        with self._lock:
            self._lines[outcome.host] = in_words(outcome)

    def __rich__(self) -> object:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        with self._lock:
            for host, line in self._lines.items():
                table.add_row(Text(host), Text(line))
        return table


@contextmanager
def shown_progress(hosts: Sequence[SshHost]) -> Iterator[InstallProgress]:
    if not sys.stderr.isatty() or len(hosts) > MAX_LIVE:
        yield PlainProgress()
        return
    from rich.console import Console
    from rich.live import Live

    progress = LiveProgress(hosts)
    with Live(progress, console=Console(stderr=True), refresh_per_second=8, transient=True):  # type: ignore[arg-type]
        yield progress


def in_words(outcome: InstallOutcome) -> str:
    if outcome.result is not InstallResult.FAILED:
        return str(outcome.result)
    return f"failed while {outcome.step}: {outcome.error}"
