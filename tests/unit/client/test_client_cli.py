"""The command line: what it sends, what it prints, how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from client_scripted_master import Answer, Asked, ScriptedMaster, free_port, log_in
from typer.testing import CliRunner, Result

from windlass import __version__
from windlass.cli.groups import MissingExtra, load_operator_commands
from windlass.cli.main import app
from windlass.cli.output import fit_columns, waiting_text

REPOSITORY = Path(__file__).parents[3]
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


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
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


LISTS = [
    (["e", "list"], "digits"),
    (["experiment", "ls", "-a"], "digits"),
    (["e", "lt", "7"], '{"lr": 0.1}'),
    (["e", "list-checkpoints", "7"], "uuid-1"),
    (["a", "list"], "gpu-1"),
    (["rp", "list"], "default"),
    (["t", "describe", "11"], "validation"),
]


@pytest.fixture
def full(cluster: ScriptedMaster) -> ScriptedMaster:
    page = {"endIndex": 1, "total": 1}
    checkpoint = {
        "uuid": "uuid-1",
        "state": "STATE_COMPLETED",
        "metadata": {"steps_completed": 4},
        "resources": {"a": "3", "b": "4"},
        "training": {"trialId": 11},
    }
    workload = {"validation": {"totalBatches": 4, "metrics": {"avgMetrics": {"loss": 1}}}}
    agent = {
        "id": "gpu-1",
        "resourcePools": ["default"],
        "enabled": True,
        "slots": {"0": {"device": {"type": "TYPE_CUDA"}, "container": {"id": "c"}}, "1": {}},
    }
    cluster.on(
        "GET",
        "/api/v1/experiments/7/checkpoints",
        {"checkpoints": [checkpoint], "pagination": page},
    )
    cluster.on("GET", "/api/v1/trials/11/workloads", {"workloads": [workload], "pagination": page})
    cluster.on("GET", "/api/v1/agents", {"agents": [agent]})
    pool = {"name": "default", "type": "RESOURCE_POOL_TYPE_STATIC", "numAgents": 1}
    cluster.on("GET", "/api/v1/resource-pools", {"resourcePools": [pool]})
    return cluster


@pytest.mark.parametrize(("arguments", "text"), LISTS)
def test_every_list_prints_plain_text_json_and_csv(
    arguments: list[str], text: str, full: ScriptedMaster
) -> None:
    plain = det(full, *arguments)
    assert plain.exit_code == 0, plain.output
    assert text in plain.stdout
    assert "\x1b" not in plain.stdout
    assert json.loads(det(full, *arguments, "--json").stdout)
    csv_lines = det(full, *arguments, "--csv").stdout.splitlines()
    assert len(csv_lines) == 2
    assert csv_lines[0].count(",") >= 3


NO_COST = {"usd": 0.0, "usdPerHour": 0.0, "forecastUsd": None, "basis": ""}


def test_describe_shows_what_it_costs_and_will(full: ScriptedMaster) -> None:
    assert "cost" not in det(full, "e", "describe", "7").stdout
    cost = {"usd": 2.5, "usdPerHour": 0.4, "forecastUsd": 10.0, "basis": "25.0% done"}
    full.on("GET", "/api/v1/windlass/experiments/7/cost", cost)
    shown = det(full, "e", "describe", "7").stdout
    assert "cost so far        $2.50" in shown
    assert "cost per hour now  $0.4000" in shown
    assert "cost forecast      $10.00 (25.0% done)" in shown
    assert json.loads(det(full, "e", "describe", "7", "--json").stdout)["cost"] == cost


def test_costs_of_the_fleet_are_summed_up_by_what_is_asked(full: ScriptedMaster) -> None:
    row = {
        "busyUsd": 3.0,
        "bootUsd": 1.0,
        "idleUsd": 0.5,
        "lostUsd": 0.0,
        "stoppedUsd": 0.25,
        "machineHours": 2.0,
    }
    rows = [{"name": "ann", "usd": 4.0, **row}, {"name": "", "usd": 0.5, **row}]
    answer = {"by": "user", "month": "2026-11", "rows": rows, "total": {**rows[0], "name": "total"}}
    full.on("GET", "/api/v1/windlass/fleet/costs", answer)
    shown = det(full, "fleet", "costs", "--by", "user", "--month", "2026-11").stdout.splitlines()
    assert shown[0].split()[:2] == ["User", "USD"]
    amounts = ["4.0000", "3.0000", "1.0000", "0.5000", "0.0000", "0.2500", "2.00"]
    assert shown[1].split() == ["ann", *amounts]
    assert shown[2].startswith("(nobody)")
    assert shown[3].startswith("total")
    (asked,) = full.calls("GET", "/api/v1/windlass/fleet/costs")
    assert asked.query == {"by": ["user"], "month": ["2026-11"]}


OFFER = {
    "name": "site/east-1/gpu-8/spot",
    "pool": "default",
    "provider": "site",
    "region": "",
    "zone": "east-1",
    "instanceType": "gpu-8",
    "market": "spot",
    "slots": 8,
    "gpuModel": "H200",
    "gpuMemoryMib": 144384,
    "cpus": None,
    "memoryMib": None,
    "usdPerHour": 2.0,
    "state": "refused",
    "reason": "InsufficientInstanceCapacity",
    "scope": {"provider": "site", "region": None, "zone": "east-1", "market": "spot"},
    "nextTryAt": "2026-11-22T15:00:00.000000Z",
    "bootS": 90.0,
    "bootIsLearned": True,
}
OPEN = {
    **OFFER,
    "name": "site/east-1/gpu-8/on_demand",
    "usdPerHour": None,
    "state": "open",
    "reason": "",
    "scope": None,
    "nextTryAt": None,
    "bootIsLearned": False,
}


def test_offers_show_what_may_be_bought_and_what_refuses(full: ScriptedMaster) -> None:
    full.on("GET", "/api/v1/windlass/fleet/offers", {"offers": [OFFER, OPEN]})
    _, refused, open_ = det(full, "fleet", "offers", "--utc").stdout.splitlines()
    for text in (
        "H200 141 GiB",
        " 2.00 ",
        " refused ",
        "2026-11-22 15:00:00 UTC",
        "site/east-1/spot",
    ):
        assert text in refused
    assert refused.endswith("InsufficientInstanceCapacity")
    assert "unknown" in open_
    assert "(not measured)" in open_
    assert json.loads(det(full, "fleet", "offers", "--json").stdout) == [OFFER, OPEN]


MACHINE = {
    "id": "i-12",
    "pool": "default",
    "offer": {key: OFFER[key] for key in ("provider", "region", "zone", "instanceType", "market")},
    "slots": 8,
    "usdPerHour": 2.0,
    "usd": 3.0,
    "state": "terminating",
    "activity": "ending",
    "reason": "idle for 5 min",
    "createdAt": "2026-11-22T13:00:00.000000Z",
    "readyAt": "2026-11-22T13:02:00.000000Z",
    "ageS": 5400.0,
    "idleS": None,
    "keptBecause": "",
    "keptUntil": None,
}


def test_a_machine_without_work_says_why_it_is_kept_and_until_when(full: ScriptedMaster) -> None:
    kept = {
        "state": "ready",
        "activity": "idle",
        "reason": "",
        "idleS": 60.0,
        "keptBecause": "cheaper until then than another boot of 180 s",
        "keptUntil": "2026-11-22T13:04:00.000000Z",
    }
    full.on("GET", "/api/v1/windlass/fleet", {"instances": [{**MACHINE, **kept}]})
    full.on("GET", "/api/v1/agents", {"agents": []})
    said = "kept until 2026-11-22 13:04:00 UTC: cheaper until then than another boot of 180 s"
    assert said in det(full, "fleet", "describe", "i-12", "--utc").stdout
    assert said in det(full, "fleet", "list", "--csv", "--utc").stdout


def test_a_machine_is_described_with_what_runs_on_it(full: ScriptedMaster) -> None:
    full.on("GET", "/api/v1/windlass/fleet", {"instances": [MACHINE]})
    containers = {"c": {"id": "c", "parent": "7.1.1"}}
    full.on("GET", "/api/v1/agents", {"agents": [{"id": "i-12", "containers": containers}]})
    mine, other = ({"allocationId": f"7.{n}.1", "name": f"trial {n}"} for n in (1, 2))
    tasks = {"allocationIdToSummary": {"7.1.1": mine, "7.2.1": other}}
    full.on("GET", "/api/v1/tasks", tasks)
    lines = det(full, "fleet", "describe", "i-12", "--utc").stdout.splitlines()
    shown = {name.strip(): value for name, _, value in (line.partition("  ") for line in lines)}
    assert shown["offer"].strip() == "site/east-1/gpu-8/spot"
    assert shown["state"].strip() == "ending"
    assert shown["ready"].strip() == "2026-11-22 13:02:00 UTC"
    assert shown["cost so far"].strip() == "$3.00"
    assert shown["runs"].strip() == "trial 1"
    assert shown["reason"].strip() == "idle for 5 min"
    document = json.loads(det(full, "fleet", "describe", "i-12", "--json").stdout)
    assert document == {**MACHINE, "allocations": [mine]}


def test_an_unknown_machine_is_answered_with_the_nearest(full: ScriptedMaster) -> None:
    full.on("GET", "/api/v1/windlass/fleet", {"instances": [MACHINE]})
    result = det(full, "fleet", "describe", "i-13")
    assert result.exit_code != 0
    assert "instance 'i-13' not found; nearest: i-12" in str(result.exception) + result.output


def test_a_retry_says_how_the_offer_stands(full: ScriptedMaster) -> None:
    full.on("POST", "/api/v1/windlass/fleet/offers/retry", {"offers": [OPEN]})
    result = det(full, "fleet", "retry", OPEN["name"])
    assert result.stdout == "Offer site/east-1/gpu-8/on_demand of pool default is open\n"
    (asked,) = full.calls("POST", "/api/v1/windlass/fleet/offers/retry")
    assert asked.body == {"offer": "site/east-1/gpu-8/on_demand"}


def test_describe_shows_what_it_waits_for(full: ScriptedMaster) -> None:
    result = det(full, "e", "describe", "7")
    assert "queued behind 3 jobs" in result.stdout
    assert json.loads(det(full, "e", "describe", "7", "--json").stdout)["trials"] == [TRIAL]


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
    cluster.on("GET", "/api/v1/trials/11", {"trial": {**TRIAL, "error": error}})
    cluster.on("GET", "/api/v1/trials/11/workloads", {"workloads": []})
    assert error in det(cluster, "trial", "describe", "11").stdout


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
    cluster.on("GET", "/api/v1/tasks/1.a", {"task": {"taskId": "1.a", "batchJobs": [job]}})
    shown = det(cluster, "task", "batch-jobs", "1.a").stdout
    head, row = shown.splitlines()
    assert head.split()[:3] == ["Run", "Job", "Queue"]
    assert [
        word for word in row.split() if word in ("2", "71", "gpu", "research", "n1,n2", "8")
    ] == [*("2", "71", "gpu", "research", "n1,n2", "8")]
    assert row.rstrip().endswith("running")
    assert json.loads(det(cluster, "task", "batch-jobs", "1.a", "--json").stdout) == [job]
