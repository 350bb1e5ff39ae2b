"""The command line: what it sends, what it prints, how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from client_scripted_master import Answer, Asked, ScriptedMaster, free_port, log_in
from typer.testing import CliRunner, Result

from tests.fakes.client_cli import EXPERIMENT, TRIAL, det
from windlass import __version__
from windlass.cli.groups import MissingExtra, load_operator_commands
from windlass.cli.main import app
from windlass.cli.output.layout import cut_widest, fit_columns
from windlass.cli.output.text import waiting_text
from windlass.sdk.wire import hash_password

REPOSITORY = Path(__file__).parents[3]


def only_line(result: Result) -> str:
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert "Traceback" not in lines[0]
    return lines[0]


def test_help_loads_neither_http_nor_servers() -> None:
    program = (
        "import sys\n"
        "from windlass.cli.main import run\n"
        "sys.argv = ['det', '--help']\n"
        "try:\n    run()\nexcept SystemExit:\n    pass\n"
        "heavy = {'httpx2', 'yaml', 'pathspec', 'pydantic', 'master', 'agent_bootstrap',"
        " 'provisioner', 'rm_backends', 'fastapi', 'sqlmodel'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "experiment" in done.stdout


def test_the_core_api_loads_no_command_line() -> None:
    program = (
        "import sys, windlass.core\n"
        "heavy = {'typer', 'rich', 'httpx2', 'pydantic', 'yaml', 'orjson', 'stamina', 'platformdirs'}"
        " & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=True)


def test_an_unreachable_master_is_named_with_the_way_to_set_it() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    line = only_line(det(url, "e", "list"))
    assert line.startswith(f"error: Cannot connect to master at {url}: Connection refused. ")
    assert "DET_MASTER" in line
    assert "-m URL" in line


def test_a_wrong_password_is_one_line(master: ScriptedMaster) -> None:
    master.on("POST", "/api/v1/auth/login", lambda _: (401, {"error": {"error": "invalid"}}))
    line = only_line(det(master, "user", "login", "alice", "--password-stdin", stdin="nope\n"))
    assert line == f"error: Wrong user name or password for alice at {master.url}"


def test_a_password_that_is_piped_is_read(
    master: ScriptedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DET_PASS", raising=False)
    log_in(master)
    assert det(master, "user", "login", "alice", stdin="pw\n").exit_code == 0
    assert det(master, "user", "login", "alice", stdin="").exit_code == 0
    said = [each.body["password"] for each in master.calls("POST", "/api/v1/auth/login")[-2:]]
    assert said == [hash_password("pw"), hash_password("")]


def test_an_expired_login_says_how_to_log_in(master: ScriptedMaster) -> None:
    log_in(master)
    assert det(master, "u", "login", "alice", "--password-stdin", stdin="pw\n").exit_code == 0
    master.on("GET", "/api/v1/me", lambda _: (401, {}))
    line = only_line(det(master, "e", "list"))
    assert "has expired" in line
    assert f"det -m {master.url} user login alice" in line


def test_the_masters_refusal_is_printed_as_one_line(cluster: ScriptedMaster) -> None:
    answer = {"error": {"code": 5, "error": "experiment '99' not found"}}
    cluster.on("GET", "/api/v1/experiments/99", lambda _: (404, answer))
    assert only_line(det(cluster, "e", "describe", "99")) == "error: experiment '99' not found"


@pytest.mark.parametrize(
    "arguments", [["e", "describe", "x"], ["nonsense"], ["e", "create"], ["t", "logs", "1", "--xx"]]
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert det("http://127.0.0.1:9", *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line 1"),
        ("- just\n- a list", "expected a YAML mapping, but found a list"),
        (None, "No such file"),
    ],
)
def test_a_bad_config_is_refused_before_anything_is_sent(
    text: str | None, message: str, cluster: ScriptedMaster, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    if text is not None:
        config.write_text(text)
    assert message in only_line(det(cluster, "e", "create", str(config), str(tmp_path)))
    assert cluster.asked == []


def _accepts_experiments(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/experiments", {"experiment": {"id": 7}, "warnings": []})


def test_create_sends_the_text_as_written(cluster: ScriptedMaster, tmp_path: Path) -> None:
    _accepts_experiments(cluster)
    text = "name: x  # a comment\nsearcher:\n  name: single\n"
    (tmp_path / "config.yaml").write_text(text)
    result = det(cluster, "e", "create", str(tmp_path / "config.yaml"), str(tmp_path), "--paused")
    assert (result.exit_code, result.stdout) == (0, "Created experiment 7\n")
    body = cluster.calls("POST", "/api/v1/experiments")[0].body
    assert body["config"] == text
    assert body["activate"] is False
    assert [f["path"] for f in body["modelDefinition"]] == ["config.yaml"]


def test_create_tells_keys_without_effect(cluster: ScriptedMaster, tmp_path: Path) -> None:
    answer = {"experiment": {"id": 7}, "configWarnings": ["slurm has no effect: why"]}
    cluster.on("POST", "/api/v1/experiments", answer)
    config = tmp_path / "config.yaml"
    config.write_text("slurm: {}\n")
    assert "warning: slurm has no effect: why" in det(cluster, "e", "create", str(config)).stderr


def test_create_applies_overrides(cluster: ScriptedMaster, tmp_path: Path) -> None:
    _accepts_experiments(cluster)
    config = tmp_path / "config.yaml"
    config.write_text("name: x\nsearcher: {name: single}\n")
    overrides = ["--config", "searcher.max_trials=4", "--config", "hp.lr={type: const, val: 1e-3}"]
    assert det(cluster, "experiment", "create", str(config), *overrides).exit_code == 0
    import yaml

    sent = yaml.safe_load(cluster.calls("POST", "/api/v1/experiments")[0].body["config"])
    assert sent["searcher"] == {"name": "single", "max_trials": 4}
    assert sent["hp"]["lr"]["type"] == "const"
    line = only_line(det(cluster, "e", "create", str(config), "--config", "name.x=1"))
    assert "name is not a mapping" in line


def test_create_and_follow_waits_for_the_first_trial(
    cluster: ScriptedMaster, tmp_path: Path
) -> None:
    _accepts_experiments(cluster)
    page = {"endIndex": 1, "total": 1}
    answers: list[Answer] = [
        (200, {"trials": [], "pagination": {"endIndex": 0, "total": 0}}),
        (200, {"trials": [TRIAL], "pagination": page}),
    ]
    cluster.on("GET", "/api/v1/experiments/7/trials", lambda _: answers.pop(0))
    lines = (
        b'{"result": {"id": "1", "message": "one\\n"}}\n{"result": {"id": "2", "message": "two"}}\n'
    )
    cluster.on("GET", "/api/v1/trials/11/logs", lambda _: (200, lines))
    looks = ["RUNNING", "COMPLETED"]
    cluster.on(
        "GET",
        "/api/v1/trials/11",
        lambda _: (200, {"trial": TRIAL | {"state": f"STATE_{looks.pop(0)}"}}),
    )
    (tmp_path / "config.yaml").write_text("name: x\n")
    result = det(cluster, "e", "create", str(tmp_path / "config.yaml"), "-f")
    assert result.exit_code == 0, result.output
    assert result.stdout == "Created experiment 7\none\ntwo\n"
    assert "Experiment 7 is waiting: queued behind 3 jobs" in result.stderr
    assert cluster.calls("GET", "/api/v1/trials/11/logs")[0].query == {"follow": ["true"]}


def test_a_log_stream_that_breaks_is_taken_up_without_repeating(cluster: ScriptedMaster) -> None:
    first = b'{"result": {"id": "1", "message": "one\\n"}}\n{"error": {"httpCode": 503}}\n'
    second = b'{"result": {"id": "1", "message": "one\\n"}}\n{"result": {"id": "2", "message": "two\\n"}}\n'
    answers: list[Answer] = [(200, first), (200, second)]
    cluster.on("GET", "/api/v1/trials/11/logs", lambda _: answers.pop(0))
    result = det(cluster, "t", "logs", "11", "-f")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")


def test_tail_is_asked_backwards_and_printed_forwards(cluster: ScriptedMaster) -> None:
    lines = b'{"result": {"id": "9", "message": "nine\\n"}}\n{"result": {"id": "8", "message": "eight\\n"}}\n'
    cluster.on("GET", "/api/v1/trials/11/logs", lambda _: (200, lines))
    assert det(cluster, "e", "logs", "7", "--tail", "2").stdout == "eight\nnine\n"
    query = cluster.calls("GET", "/api/v1/trials/11/logs")[0].query
    assert query == {"limit": ["2"], "orderBy": ["ORDER_BY_DESC"]}
    assert "Use only one" in only_line(det(cluster, "t", "logs", "11", "-f", "--head", "1"))


def test_wait_shows_the_reason_and_fails_unless_completed(cluster: ScriptedMaster) -> None:
    def states(*names: str) -> None:
        queue = [{"experiment": EXPERIMENT | {"state": f"STATE_{n}"}} for n in names]
        cluster.on("GET", "/api/v1/experiments/7", lambda _: (200, queue.pop(0)))

    fast = ["--polling-interval", "0.1"]
    states("QUEUED", "COMPLETED")
    result = det(cluster, "e", "wait", "7", *fast)
    assert (result.exit_code, result.stdout) == (0, "Experiment 7: COMPLETED\n")
    assert "QUEUED  50.0%  waiting: queued behind 3 jobs" in result.stderr
    states("ERROR")
    assert det(cluster, "e", "wait", "7", *fast).exit_code == 1


@pytest.mark.parametrize("action", ["pause", "activate", "cancel", "kill"])
def test_steering(action: str, cluster: ScriptedMaster) -> None:
    cluster.on("POST", f"/api/v1/experiments/7/{action}", {})
    assert det(cluster, "e", action, "7").exit_code == 0
    assert len(cluster.calls("POST", f"/api/v1/experiments/7/{action}")) == 1


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, ""),
        ({"waitingReason": None, "waitingReasons": []}, ""),
        ({"waitingReason": "a"}, "a"),
        ({"waitingReason": "a", "waitingReasons": [{"text": "x"}, {"text": "y"}]}, "x; y"),
        ({"waitingReasons": ["x", "x"]}, "x"),
    ],
)
def test_waiting_reasons_in_every_form(document: dict[str, object], text: str) -> None:
    assert waiting_text(document) == text


@pytest.mark.parametrize(
    ("room", "fit"),
    [
        (80, (2, [9, 19, 8])),
        (36, (2, [9, 15, 8])),
        (30, (2, [9, 10, 7])),  # the gap is kept as long as no word breaks
        (28, (1, [9, 10, 7])),
        (10, (1, [9, 10, 7])),  # too narrow: no word breaks even so
    ],
)
def test_narrow_terminals_fold_the_widest_column_and_break_no_word(
    room: int, fit: tuple[int, list[int]]
) -> None:
    columns = [["State", "COMPLETED"], ["Ended", "2026-01-02 03:04:05"], ["Name", "digits a"]]
    columns[2].append("letters")
    assert fit_columns(columns, room) == fit


@pytest.mark.parametrize(
    ("widths", "room", "cut"),
    [
        ([8, 30, 40], 80, [8, 30, 40]),
        ([8, 30, 40], 70, [8, 30, 32]),
        ([8, 30, 40], 60, [8, 26, 26]),
        ([8, 30, 40], 59, [8, 26, 25]),
        ([8, 30, 40], 28, [8, 10, 10]),
        ([8, 30, 40], 27, [8, 30, 40]),  # left to the terminal
        ([40, 12, 5], 55, [40, 10, 5]),  # what names the row stays
        ([], 0, []),
    ],
)
def test_the_widest_columns_are_cut_where_words_are_too_long(
    widths: list[int], room: int, cut: list[int]
) -> None:
    assert cut_widest(widths, room, keep=0) == cut


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tensorboard", "start", "abc"), '"abc" is not a whole number'),
        (("e", "logs", "1", "--tail", "x\x1b"), "is not a whole number"),
        (("notebook", "set", "priority", "x", "100"), "100 is too large: the most is 99"),
        (("e", "list", "--limit", "0"), "0 is too small: the least is 1"),
    ],
)
def test_a_wrong_number_is_told_in_plain_words(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 2
    assert said in result.output
    assert "Input should" not in result.output
    assert "\x1b" not in result.output


def test_pools_with_a_limit_of_instances_are_elastic(cluster: ScriptedMaster) -> None:
    pools = [
        {"name": name, "type": "RESOURCE_POOL_TYPE_STATIC", "maxAgents": most}
        for name, most in (("fixed", 0), ("cloud", 3))
    ]
    page = {"endIndex": 2, "total": 2}
    cluster.on("GET", "/api/v1/resource-pools", {"resourcePools": pools, "pagination": page})
    rows = det(cluster, "resource-pool", "list").stdout.splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [["fixed", "static"], ["cloud", "elastic"]]


def test_a_failed_trial_says_why(cluster: ScriptedMaster) -> None:
    error = "container failed with non-zero exit code: 1"
    cluster.on("GET", "/api/v1/trials/11", {"trial": {**TRIAL, "error": error, "taskId": "11.a"}})
    cluster.on("GET", "/api/v1/trials/11/workloads", {"workloads": []})
    said = det(cluster, "trial", "describe", "11").stdout
    assert error in said
    assert "task" in said
    assert "11.a" in said


def test_a_list_shows_that_the_metric_of_a_search_was_never_reported(
    cluster: ScriptedMaster,
) -> None:
    error = "the searcher's metric was not reported"
    experiment = {"id": 7, "name": "e", "state": "STATE_COMPLETED", "error": error}
    page = {"total": 1, "endIndex": 1}
    cluster.on("GET", "/api/v1/experiments", {"experiments": [experiment], "pagination": page})
    assert error in det(cluster, "e", "list", "--csv").stdout


def test_login_is_remembered_and_forgotten(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/auth/logout", {})
    assert det(cluster, "user", "login", "determined", stdin="").exit_code == 0
    assert det(cluster, "user", "whoami").stdout == f"determined at {cluster.url}\n"
    assert det(cluster, "user", "logout").exit_code == 0
    call: Asked = cluster.calls("POST", "/api/v1/auth/logout")[0]
    assert call.headers["authorization"] == "Bearer t"
    assert "Not logged in" in det(cluster, "user", "logout").stderr


def test_the_version_of_the_client_needs_no_master() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"windlass {__version__}\n")


def test_version_works_with_and_without_a_master(cluster: ScriptedMaster) -> None:
    assert json.loads(det(cluster, "version", "--json").stdout)["master"]["version"] == "0.38.1"
    alone = det(f"http://127.0.0.1:{free_port()}", "version")
    assert alone.exit_code == 0
    assert "cannot connect to" in alone.stdout


def test_a_missing_extra_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtra, match=r"windlass-cluster\[no-such\]"):
        load_operator_commands("no-such")

    class Broken:
        def load(self) -> object:
            raise ModuleNotFoundError("no", name="sqlmodel")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [Broken()])
    line = only_line(det("http://127.0.0.1:9", "master", "run"))
    assert "pip install 'windlass-cluster[master]'" in line
    assert "sqlmodel" in line
    assert det("http://127.0.0.1:9", "master", "--help").exit_code == 0


def test_operators_commands_join_the_users_group(monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    operators = typer.Typer()

    @operators.callback()
    def group() -> None:
        """Operators."""

    @operators.command()
    def run(name: str) -> None:
        typer.echo(f"running {name}")

    class Point:
        def load(self) -> typer.Typer:
            return operators

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [Point()])
    assert det("http://127.0.0.1:9", "agent", "run", "x").stdout == "running x\n"
    text = det("http://127.0.0.1:9", "agent", "--help").stdout
    assert "run" in text
    assert "list" in text


def test_an_unforeseen_error_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from windlass.cli import main

    def fail() -> None:
        raise RuntimeError("odd\nthing")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(SystemExit) as exit_:
        main.run()
    assert exit_.value.code == 1
    assert capsys.readouterr().err == (
        "error: RuntimeError: odd thing (this is a bug; set WINDLASS_DEBUG=1 for the traceback)\n"
    )


@pytest.mark.parametrize("action", ["cancel", "kill"])
def test_what_has_ended_is_not_ended_again(action: str, cluster: ScriptedMaster) -> None:
    ended = {"experiment": {"id": 7, "state": "STATE_COMPLETED"}}
    cluster.on("GET", "/api/v1/experiments/7", ended)
    result = det(cluster, "e", action, "7")
    assert (result.exit_code, result.stderr) == (0, "Experiment 7 has already completed\n")
    assert cluster.calls("POST", f"/api/v1/experiments/7/{action}") == []


def test_help_cuts_nothing_where_there_is_no_wide_terminal(cluster: ScriptedMaster) -> None:
    said = det(cluster, "deploy", "local", "cluster-up", "--help").stdout
    assert "~/.local/share/windlass/local" in said
    assert "…" not in said
    assert "│" not in said


@pytest.mark.slow
def test_no_line_of_a_list_of_commands_is_cut() -> None:
    for group in ([], ["deploy", "local"], ["agent"], ["master"]):
        shown = CliRunner().invoke(app, [*group, "--help"]).stdout
        assert "Commands:" in shown
        assert "..." not in shown.split("Commands:")[1], group


def test_the_log_of_any_task_is_shown_by_its_id(cluster: ScriptedMaster) -> None:
    task = "7.0d9c6ab6-9b0a-4b4e-8d2c-0b6f2f9f3a11"
    line = {"result": {"id": "1", "message": "Deleted checkpoint 1\n"}}
    cluster.on("GET", f"/api/v1/tasks/{task}/logs", line)
    assert det(cluster, "task", "logs", task).stdout == "Deleted checkpoint 1\n"


def test_batch_jobs_of_a_task(cluster: ScriptedMaster) -> None:
    job = {
        "allocationId": "1.a.2",
        "name": "wl-1",
        "id": "71",
        "system": "slurm",
        "queue": "gpu",
        "account": "research",
        "state": "RUNNING",
        "nodes": ["n1", "n2"],
        "gpus": 8,
        "startTime": "2026-01-02T03:04:05Z",
        "endTime": None,
        "gpuHours": None,
        "end": "",
    }
    task = "1.0d9c6ab6-9b0a-4b4e-8d2c-0b6f2f9f3a11"
    cluster.on("GET", f"/api/v1/tasks/{task}", {"task": {"taskId": task, "batchJobs": [job]}})
    shown = det(cluster, "task", "batch-jobs", task).stdout
    head, row = shown.splitlines()
    assert head.split()[:3] == ["Run", "Job", "Queue"]
    assert [
        word for word in row.split() if word in ("2", "71", "gpu", "research", "n1,n2", "8")
    ] == [*("2", "71", "gpu", "research", "n1,n2", "8")]
    assert row.rstrip().endswith("running")
    assert json.loads(det(cluster, "task", "batch-jobs", task, "--json").stdout) == [job]
