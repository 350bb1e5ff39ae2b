"""What the client's tests share: a scripted master, and the environment of a trial."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster, TrialMaster, trial_environment

from tests.fakes.client_cli import with_an_experiment


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and no DET_ variable of whoever runs the tests."""
    for name in [n for n in os.environ if n.startswith(("DET_", "XDG_", "WINDLASS_"))]:
        monkeypatch.delenv(name)
    path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return path


@pytest.fixture
def master() -> Iterator[ScriptedMaster]:
    server = ScriptedMaster()
    server.on("GET", "/info", {"version": "0.38.1"})
    yield server
    server.close()


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    return with_an_experiment(master)


@pytest.fixture
def trial(
    master: ScriptedMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TrialMaster]:
    """This process is a trial of the scripted master."""
    for name, value in trial_environment(master.url, tmp_path).items():
        monkeypatch.setenv(name, value)
    running = TrialMaster(master)
    yield running
    running.over.set()
