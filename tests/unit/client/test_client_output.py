"""Times, colours, limits, progress bars and completion: what makes a command line pleasant."""

from __future__ import annotations

import io
import time

import pytest
from client_scripted_master import Answer, Asked, ScriptedMaster, free_port, log_in
from rich.console import Console
from typer.testing import CliRunner, Result

from windlass.cli.main import app
from windlass.cli.output.progress import transfer
from windlass.cli.output.text import style
from windlass.cli.output.times import local_time
from windlass.sdk.session import Session

EXPERIMENTS = [
    {
        "id": number,
        "name": f"e{number}",
        "state": "STATE_COMPLETED",
        "startTime": "2026-01-02T03:04:05Z",
    }
    for number in range(1, 6)
]


def experiments(asked: Asked) -> Answer:
    rows = EXPERIMENTS[:: -1 if asked.query.get("orderBy") == ["ORDER_BY_DESC"] else 1]
    rows = rows[: int(asked.query["limit"][0])]
    return 200, {"experiments": rows, "pagination": {"endIndex": len(rows), "total": 5}}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "determined"}})
    master.on("GET", "/api/v1/experiments", experiments)
    return master


def det(master: ScriptedMaster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments])


@pytest.fixture
def kolkata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()


@pytest.mark.usefixtures("kolkata")
def test_times_are_local_with_their_zone_unless_utc_is_asked_for(cluster: ScriptedMaster) -> None:
    assert "2026-01-02 08:34:05 IST" in det(cluster, "e", "list").stdout
    assert "2026-01-02 03:04:05 UTC" in det(cluster, "e", "list", "--utc").stdout
    assert "2026-01-02 08:34:05 IST" in det(cluster, "e", "list").stdout, "it is not remembered"
    assert local_time(0.0) == "1970-01-01 05:30:00 IST"
    assert local_time(None) == ""
    assert local_time("soon") == "soon"


def test_a_limit_keeps_the_newest(cluster: ScriptedMaster) -> None:
    rows = det(cluster, "e", "list", "--limit", "2").stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["4", "5"]
    (asked,) = cluster.calls("GET", "/api/v1/experiments")
    assert asked.query["limit"] == ["2"], "the master is not asked for more"
    assert det(cluster, "e", "list", "--limit", "0").exit_code == 2


@pytest.mark.parametrize(
    ("state", "colour"),
    [
        ("RUNNING", "green"),
        ("ERROR", "red"),
        ("STOPPING_CANCELED", "magenta"),
        ("CANCELED", "bright_black"),
        ("enabled, 2 of its slots not", "green"),
        ("UNHEARD_OF", ""),
        ("", ""),
    ],
)
def test_states_have_colours(state: str, colour: str) -> None:
    assert style(state) == colour


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_progress_bar_appears_after_a_second() -> None:
    clock = Clock()
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    with transfer("Uploading model code", console=console, clock=clock) as report:
        report(1, 100)
        assert screen.getvalue() == ""
        clock.now = 1.5
        report(50, 100)
    assert "Uploading model code" in screen.getvalue()
    assert "50/100" in screen.getvalue()


def test_what_is_sent_is_reported_and_arrives_whole(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/commands", {})
    reports: list[tuple[int, int]] = []
    with Session(cluster.url) as session:
        session.on_sent = lambda done, total: reports.append((done, total))
        session.post("/api/v1/commands", {"data": "x" * 200_000})
    (asked,) = cluster.calls("POST", "/api/v1/commands")
    assert len(asked.body["data"]) == 200_000
    total = int(asked.headers["content-length"])
    assert reports == [(n, total) for n in (65536, 131072, 196608, total)]


def complete(words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash gets for `words` with the cursor at the end."""
    monkeypatch.setenv("_DET_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    return CliRunner().invoke(app, prog_name="det").stdout.split()


@pytest.mark.slow
def test_ids_are_completed_by_the_master(
    cluster: ScriptedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_MASTER", cluster.url)
    assert complete("det e describe ", monkeypatch) == ["5", "4", "3", "2", "1"]
    assert complete("det experiment kill 4", monkeypatch) == ["4"]
    cluster.on("GET", "/api/v1/agents", {"agents": [{"id": "gpu-1"}, {"id": "cpu-1"}]})
    assert complete("det agent drain g", monkeypatch) == []
    assert complete("det agent disable g", monkeypatch) == ["gpu-1"]
    for number in (5, 4, 3):
        found = {"checkpoints": [{"uuid": f"{number}a"}], "pagination": {"endIndex": 1, "total": 1}}
        cluster.on("GET", f"/api/v1/experiments/{number}/checkpoints", found)
    assert complete("det checkpoint download ", monkeypatch) == ["5a", "4a", "3a"]
    for kind in ("command", "notebook", "shell", "tensorboard"):
        found = {f"{kind}s": [{"id": f"{kind}-1"}, {"id": "other"}]}
        cluster.on("GET", f"/api/v1/{kind}s", found)
        assert complete(f"det {kind} kill {kind[0]}", monkeypatch) == [f"{kind}-1"]
    assert complete("det shell set priority o", monkeypatch) == ["other"]
    assert complete("det shell open s", monkeypatch) == ["shell-1"]


@pytest.mark.parametrize(
    ("shell", "words", "said"),
    [
        ("bash", {"COMP_WORDS": "det experiment desc", "COMP_CWORD": "2"}, "describe"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "det experiment desc"}, '"describe":"Show an experiment'),
        (
            "fish",
            {
                "_TYPER_COMPLETE_ARGS": "det experiment desc",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
            "describe\tShow an experiment",
        ),
    ],
)
def test_every_shell_gets_commands_in_its_own_form(
    shell: str, words: dict[str, str], said: str
) -> None:
    environment = {"_DET_COMPLETE": f"complete_{shell}", **words}
    assert said in CliRunner().invoke(app, prog_name="det", env=environment).stdout


def test_a_master_that_is_away_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_MASTER", f"http://127.0.0.1:{free_port()}")
    assert complete("det e describe ", monkeypatch) == []
