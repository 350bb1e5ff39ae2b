"""The command line against a scripted master."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

from client_scripted_master import WAIT_S, ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app

REPOSITORY = Path(__file__).parents[2]
EXPERIMENT = {
    "id": 7,
    "name": "digits",
    "username": "determined",
    "state": "STATE_QUEUED",
    "progress": 0.5,
    "startTime": "2026-01-02T03:04:05.678901Z",
    "endTime": None,
    "resourcePool": "default",
    "searcherType": "single",
    "waitingReason": "queued behind 3 jobs",
}
TRIAL = {
    "id": 11,
    "experimentId": 7,
    "state": "STATE_RUNNING",
    "hparams": {"lr": 0.1},
    "startTime": "2026-01-02T03:04:05Z",
    "searcherMetricValue": 0.25,
    "totalBatchesProcessed": 40,
    "restarts": 0,
}
NO_COST = {"usd": 0.0, "usdPerHour": 0.0, "forecastUsd": None, "basis": ""}


def with_an_experiment(master: ScriptedMaster) -> ScriptedMaster:
    """It has one experiment with one trial, and a user who is logged in."""
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "determined", "admin": False}})
    master.on("GET", "/info", {"version": "0.38.1", "cluster_name": "lab"})
    page = {"endIndex": 1, "total": 1}
    master.on("GET", "/api/v1/experiments", {"experiments": [EXPERIMENT], "pagination": page})
    master.on("GET", "/api/v1/experiments/7", {"experiment": EXPERIMENT, "jobSummary": None})
    master.on("GET", "/api/v1/windlass/experiments/7/cost", NO_COST)
    master.on("GET", "/api/v1/experiments/7/trials", {"trials": [TRIAL], "pagination": page})
    master.on("GET", "/api/v1/trials/11", {"trial": TRIAL})
    return master


def det(master: ScriptedMaster | str, *arguments: str, stdin: str | None = None) -> Result:
    url = master if isinstance(master, str) else master.url
    return CliRunner().invoke(app, ["-m", url, *arguments], input=stdin)


def on_a_terminal(master: ScriptedMaster, *arguments: str, columns: int) -> list[str]:
    """What a terminal of that width shows, without colours."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "windlass", "-m", master.url, *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
        timeout=WAIT_S,
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # EIO: all was read
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    assert done.returncode == 0, done.stderr
    return shown.decode().splitlines()
