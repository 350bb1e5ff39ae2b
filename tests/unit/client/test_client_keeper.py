"""The keeper of a process: starts it again, ends it, and lets none run that no file names."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.base.processes import send, wait_gone
from windlass.deploy.local import keeper
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.processes import start_detached
from windlass.deploy.local.records import ServiceSpec
from windlass.deploy.local.services import Condition, LocalService, LocalServices

PATIENCE_S = 60.0


@pytest.fixture
def services(tmp_path: Path) -> Iterator[LocalServices]:
    folder = ClusterFolder(tmp_path)
    services = LocalServices(folder)
    yield services
    services.stop([service.name for service in services.all()])


def spec(tmp_path: Path, code: str, *, autorestart: bool = True) -> ServiceSpec:
    return ServiceSpec(
        name="it",
        command=[sys.executable, "-c", code],
        log=tmp_path / "logs" / "it.log",
        environ={"MINE": "1"},
        autorestart=autorestart,
    )


def until(services: LocalServices, what: Callable[[LocalService], object]) -> LocalService:
    deadline = time.monotonic() + PATIENCE_S
    while not what(found := services.of("it")):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


SLEEP = "import signal; signal.pause()"


def test_what_is_killed_comes_back(services: LocalServices, tmp_path: Path) -> None:
    services.start(spec(tmp_path, SLEEP), os.environ)
    first = services.of("it")
    assert first.process is not None
    send(first.process.process, 9)
    again = until(services, lambda s: s.restarts == 1 and s.condition is Condition.RUNNING)
    assert again.process != first.process
    assert again.keeper == first.keeper
    assert again.ended == "killed by SIGKILL"


KILLED_AT_THE_GATE = """
import os, sys
from pathlib import Path
from windlass.deploy.local import keeper
note = keeper.Keeper._note
def kill_first(self, state):
    note(self, state)
    if state.process is not None and state.restarts == 0:
        os.kill(state.process.pid, 9)
        os.waitid(os.P_PID, state.process.pid, os.WEXITED | os.WNOWAIT)
keeper.Keeper._note = kill_first
keeper.Keeper(Path(sys.argv[1]), "it").run()
"""


def test_what_is_killed_before_its_first_line_comes_back(
    services: LocalServices, tmp_path: Path
) -> None:
    made = spec(tmp_path, SLEEP)
    for folder in (tmp_path / "services", made.log.parent):
        folder.mkdir()
    made.write(tmp_path / "services")
    command = [sys.executable, "-c", KILLED_AT_THE_GATE, str(tmp_path / "services")]
    start_detached("it", command, made.log, os.environ)
    again = until(services, lambda s: s.restarts == 1 and s.condition is Condition.RUNNING)
    assert again.ended == "killed by SIGKILL"
    assert made.log.read_text() == ""


def test_what_ends_by_itself_comes_back_too(services: LocalServices, tmp_path: Path) -> None:
    services.start(spec(tmp_path, "import sys; sys.exit(3)"), os.environ)
    found = until(services, lambda s: s.restarts == 2)
    assert found.ended == "exit code 3"


def test_without_autorestart_it_stays_ended(services: LocalServices, tmp_path: Path) -> None:
    services.start(spec(tmp_path, "import sys; sys.exit(3)", autorestart=False), os.environ)
    found = until(services, lambda s: s.condition is Condition.GONE)
    assert (found.ended, found.restarts) == ("exit code 3", 0)
    assert found.keeper is not None
    assert wait_gone(found.keeper.process, PATIENCE_S)


def test_stopping_ends_process_and_keeper(services: LocalServices, tmp_path: Path) -> None:
    stubborn = (
        "import signal\nsignal.signal(15, lambda *_: print('told', flush=True))\n"
        "print('up', flush=True)\nwhile True: signal.pause()"
    )
    services.start(spec(tmp_path, stubborn), os.environ)
    log = tmp_path / "logs" / "it.log"
    until(services, lambda _: "up" in log.read_text())
    found = services.of("it")
    assert found.process is not None
    assert found.keeper is not None
    send(found.keeper.process, 15)
    until(services, lambda _: "told" in log.read_text())
    send(found.process.process, 9)
    assert wait_gone(found.keeper.process, PATIENCE_S)
    assert services.of("it").condition is Condition.GONE


def test_a_program_that_cannot_be_started_is_told(services: LocalServices, tmp_path: Path) -> None:
    wrong = ServiceSpec(
        name="it", command=["/nowhere/x"], log=tmp_path / "logs" / "it.log", autorestart=False
    )
    services.start(wrong, os.environ)
    until(services, lambda s: s.ended == "exit code 127")
    assert "cannot start /nowhere/x: No such file" in wrong.log.read_text()


def test_there_is_one_keeper_of_a_process(services: LocalServices, tmp_path: Path) -> None:
    services.start(spec(tmp_path, SLEEP), os.environ)
    before = services.of("it")
    second = keeper.Keeper(tmp_path / "services", "it")
    assert second.run() == 0, "it leaves at once"
    assert services.of("it") == before


def test_it_is_in_a_session_of_its_own_with_its_settings(
    services: LocalServices, tmp_path: Path
) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.environ['MINE'], flush=True); " + SLEEP
    services.start(spec(tmp_path, code), os.environ)
    log = tmp_path / "logs" / "it.log"
    until(services, lambda _: log.read_text() == "True 1\n")
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_long_log_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = spec(tmp_path, SLEEP)
    (tmp_path / "logs").mkdir()
    (tmp_path / "services").mkdir()
    made.write(tmp_path / "services")
    made.log.write_text("x" * 100)
    one = keeper.Keeper(tmp_path / "services", "it")
    one._bound_log()
    assert made.log.stat().st_size == 100
    monkeypatch.setattr(keeper, "MAX_LOG_BYTES", 99)
    one._bound_log()
    assert made.log.read_text() == ""
    assert (tmp_path / "logs" / "it.log.1").read_text() == "x" * 100
