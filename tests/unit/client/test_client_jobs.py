"""`det job` and `det experiment set`: what they send, what they print, how they fail."""

from __future__ import annotations

import csv
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import Asked, ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.job.words import parse_operation
from windlass.cli.main import app
from windlass.cli.output.columns import short_ids

FIRST = "0a1b2c3d-0000-4000-8000-000000000001"
SECOND = "0a1b2c3d-1111-4000-8000-000000000002"
JOB: dict[str, Any] = {
    "jobId": FIRST,
    "type": "TYPE_EXPERIMENT",
    "name": "digits",
    "entityId": "7",
    "username": "ann",
    "resourcePool": "default",
    "priority": 42,
    "weight": 2.5,
    "maxSlots": 9,
    "allocatedSlots": 1,
    "requestedSlots": 4,
    "summary": {"state": "STATE_SCHEDULED", "jobsAhead": 0},
    "waitingReason": None,
}
OTHER = {
    **JOB,
    "jobId": SECOND,
    "type": "TYPE_COMMAND",
    "name": "look around",
    "allocatedSlots": 0,
    "summary": {"state": "STATE_QUEUED", "jobsAhead": 1},
    "waitingReason": "queued: 4 of 4 slots are in use by other jobs at their fair share",
}
COMMANDS = [
    {"id": "c1d2e3f4-0000-4000-8000-000000000003", "jobId": SECOND, "state": "STATE_QUEUED"},
    {
        "id": "c1aaaaaa-0000-4000-8000-000000000004",
        "jobId": "0a1b2c3d-2222-4000-8000-000000000005",
        "state": "STATE_TERMINATED",
        "exitStatus": "success",
    },
]
NOTEBOOK = {"id": "d1d2e3f4-0000-4000-8000-000000000006", "jobId": SECOND, "state": "STATE_RUNNING"}
TENSORBOARD = {**NOTEBOOK, "id": "f1d2e3f4-0000-4000-8000-000000000007"}
EXPLAINED = {
    "job": JOB,
    "text": "holds 1 slot, 13 requests waiting for slots, 3 jobs ahead",
    "waiting": [
        {
            "allocationId": "7.a.1",
            "name": "Trial 12 (Experiment 7)",
            "slots": 3,
            "since": "2026-01-02T03:04:05.678901Z",
            "reason": {"kind": "queued", "text": "queued behind 3 jobs", "retryAt": None},
            "advice": "wait for the 3 jobs ahead of it",
            "expectedStart": "2026-01-02T04:00:00.000000Z",
        },
        {
            "allocationId": "7.b.1",
            "name": "Trial 13 (Experiment 7)",
            "slots": None,
            "since": None,
            "reason": {"kind": "queued", "text": "the same", "retryAt": None},
            "advice": "wait",
            "expectedStart": None,
        },
    ],
    "waitingTotal": 13,
    "holding": [
        {
            "allocationId": "7.c.1",
            "name": "Trial 11 (Experiment 7)",
            "slots": 1,
            "since": "2026-01-02T03:00:00.000000Z",
            "agents": {"node-1": 1},
            "releasing": True,
        }
    ],
    "lastRelease": "made room for job 3",
}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "determined", "admin": False}})
    page = {"endIndex": 2, "total": 2}
    master.on("GET", "/api/v1/job-queues", {"jobs": [JOB, OTHER], "pagination": page})
    master.on("POST", "/api/v1/job-queues", {})
    master.on("GET", "/api/v1/experiments/7", {"experiment": {"id": 7, "jobId": FIRST}})
    over = {"id": 8, "jobId": FIRST, "state": "STATE_ERROR"}
    master.on("GET", "/api/v1/experiments/8", {"experiment": over})
    master.on("GET", "/api/v1/windlass/jobs/0a1b2c3d-1", {"job": OTHER})
    master.on("GET", f"/api/v1/windlass/jobs/{FIRST}", {"job": JOB})
    master.on("GET", "/api/v1/commands", {"commands": COMMANDS})
    master.on("GET", "/api/v1/notebooks", {"notebooks": [NOTEBOOK]})
    master.on("GET", "/api/v1/shells", {})
    master.on("GET", "/api/v1/tensorboards", {"tensorboards": [TENSORBOARD]})
    master.on("GET", f"/api/v1/windlass/jobs/{FIRST}/explain", EXPLAINED)
    master.on("PATCH", "/api/v1/experiments/7", {"experiment": {"id": 7}})
    pools(master, "SCHEDULER_TYPE_PRIORITY")
    return master


def pools(master: ScriptedMaster, scheduler: str) -> None:
    default = {"name": "default", "schedulerType": scheduler, "defaultComputePool": True}
    shared = {"name": "shared", "schedulerType": "SCHEDULER_TYPE_FAIR_SHARE"}
    master.on("GET", "/api/v1/resource-pools", {"resourcePools": [shared, default]})


def det(master: ScriptedMaster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments])


def said(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


def updates(master: ScriptedMaster) -> list[Any]:
    return [asked.body["updates"] for asked in master.calls("POST", "/api/v1/job-queues")]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_the_queue_is_listed_in_its_order(cluster: ScriptedMaster) -> None:
    first, second = table(said(det(cluster, "job", "list", "--csv")))
    assert first == {
        "#": "0",
        "ID": FIRST,
        "Type": "experiment",
        "Name": "digits (7)",
        "Priority": "42",
        "Slots": "1/4",
        "State": "SCHEDULED",
        "Waiting for": "",
        "User": "ann",
    }
    assert (second["Name"], second["Type"]) == ("look around", "command")
    assert second["Waiting for"] == OTHER["waitingReason"]
    (asked,) = cluster.calls("GET", "/api/v1/job-queues")
    assert asked.query["orderBy"] == ["ORDER_BY_ASC"]
    assert "resourcePool" not in asked.query
    assert json.loads(said(det(cluster, "j", "ls", "--json"))) == [JOB, OTHER]


def test_a_pool_of_shares_shows_weights(cluster: ScriptedMaster) -> None:
    jobs = [{**JOB, "summary": {"state": "STATE_QUEUED", "jobsAhead": -1}}]
    cluster.on("GET", "/api/v1/job-queues", {"jobs": jobs, "pagination": {}})
    arguments = ("-p", "shared", "--limit", "5", "--offset", "2", "--reverse", "--csv")
    (row,) = table(said(det(cluster, "job", "ls", *arguments)))
    assert (row["#"], row["Weight"]) == ("N/A", "2.5")
    (asked,) = cluster.calls("GET", "/api/v1/job-queues")
    assert asked.query == {
        "resourcePool": ["shared"],
        "limit": ["5"],
        "offset": ["2"],
        "orderBy": ["ORDER_BY_DESC"],
    }


def test_all_pages_are_read(cluster: ScriptedMaster) -> None:
    def page(asked: Asked) -> tuple[int, Any]:
        offset = int(asked.query["offset"][0])
        job = {**JOB, "entityId": str(offset)}
        return 200, {"jobs": [job], "pagination": {"endIndex": offset + 1, "total": 3}}

    cluster.on("GET", "/api/v1/job-queues", page)
    assert len(table(said(det(cluster, "job", "ls", "--csv")))) == 3


@pytest.mark.slow
def test_the_table_fits_a_terminal(cluster: ScriptedMaster, home: Path) -> None:
    ours, theirs = pty.openpty()
    program = "from windlass.cli.main import run; run()"
    command = [sys.executable, "-P", "-c", program, "-m", cluster.url, "job", "list"]
    environment = {**os.environ, "TERM": "dumb"}  # 80 columns, no colours
    done = subprocess.run(
        command, stdout=theirs, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    lines = [line.rstrip() for line in os.read(ours, 65536).decode().splitlines()]
    os.close(ours)
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[:3] == ["0", "0a1b2c3d-0", "experiment"]
    assert " ".join(lines[3:]) == f"0a1b2c3d-1 waits for: {OTHER['waitingReason']}"


@pytest.mark.parametrize(
    ("options", "change"),
    [
        (("--priority", "1"), {"priority": 1}),
        (("-p", "99"), {"priority": 99}),
        (("-w", "2.5"), {"weight": 2.5}),
        (("--resource-pool", "p2"), {"resourcePool": "p2"}),
        (("--ahead-of", "7"), {"aheadOf": FIRST}),
        (("--behind-of", FIRST), {"behindOf": FIRST}),
    ],
)
def test_one_thing_of_a_job_is_changed(
    cluster: ScriptedMaster, options: tuple[str, ...], change: dict[str, Any]
) -> None:
    result = det(cluster, "job", "update", "0a1b2c3d-1", *options)
    assert said(result) == ""
    assert result.stderr == f"Updated job {SECOND}\n"
    assert updates(cluster) == [[{"jobId": SECOND, **change}]]


@pytest.mark.parametrize("options", [(), ("-p", "1", "-w", "2")])
def test_an_update_is_of_exactly_one_thing(
    cluster: ScriptedMaster, options: tuple[str, ...]
) -> None:
    assert "Give exactly one of --priority" in refused(det(cluster, "job", "u", "7", *options))
    assert cluster.asked == []


def test_a_batch_goes_out_in_one_call(cluster: ScriptedMaster) -> None:
    batch = ("7.priority=1", "0a1b2c3d-1.resource-pool=p2", f"{FIRST}.weight=2.5", "7.ahead-of=7")
    result = det(cluster, "job", "update-batch", *batch)
    assert said(result) == ""
    assert result.stderr == "Made 4 updates\n"
    assert updates(cluster) == [
        [
            {"jobId": FIRST, "priority": 1},
            {"jobId": SECOND, "resourcePool": "p2"},
            {"jobId": FIRST, "weight": 2.5},
            {"jobId": FIRST, "aheadOf": FIRST},
        ]
    ]
    said(det(cluster, "job", "update-batch", "unknown.priority=1", "7.priority=2"))
    assert updates(cluster)[1] == [
        {"jobId": "unknown", "priority": 1},
        {"jobId": FIRST, "priority": 2},
    ], "the master names it, and does the other"
    assert parse_operation("a.resource_pool=x.y") == {"jobId": "a", "resourcePool": "x.y"}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("7", "expected JOB.OPERATION=VALUE"),
        ("7.priority", "expected JOB.OPERATION=VALUE"),
        (".priority=1", "expected JOB.OPERATION=VALUE"),
        ("7.priority=", "expected JOB.OPERATION=VALUE"),
        ("7.speed=1", 'unknown operation "speed"; use one of priority, weight'),
        ("7.priority=high", 'priority must be a whole number, not "high"'),
        ("7.priority=1.0", 'priority must be a whole number, not "1.0"'),
        ("7.weight=1,5", 'weight must be a number, not "1,5"'),
    ],
)
def test_a_malformed_operation_is_named_and_nothing_is_sent(
    cluster: ScriptedMaster, operation: str, message: str
) -> None:
    line = refused(det(cluster, "job", "update-batch", "7.priority=1", operation))
    assert f'"{operation}"' in line
    assert message in line
    assert cluster.asked == []


def test_the_masters_refusal_of_an_update_is_one_line(cluster: ScriptedMaster) -> None:
    answer = {"error": {"code": 3, "error": "1 of 2 updates failed: job x: no"}}
    cluster.on("POST", "/api/v1/job-queues", lambda _: (400, answer))
    line = refused(det(cluster, "job", "update", "7", "-p", "1"))
    assert line == "error: 1 of 2 updates failed: job x: no"
    assert "not found" in refused(det(cluster, "job", "update", "nowhere", "-p", "1"))


def test_an_explanation_for_people_and_for_programs(cluster: ScriptedMaster) -> None:
    text = said(det(cluster, "job", "explain", "7"))
    for line in (
        "type             experiment 7: digits",
        "max_slots        9",
        "state            holds 1 slot, 13 requests waiting for slots, 3 jobs ahead",
        "last preemption  made room for job 3",
        "Trial 12 (Experiment 7) waits for 3 slots since 2026-01-02 03:04:05 UTC",
        "  reason             queued behind 3 jobs",
        "  what helps         wait for the 3 jobs ahead of it",
        "  expected to start  2026-01-02 04:00:00 UTC",
        "Trial 13 (Experiment 7) waits",
        "  expected to start  not known",
        "11 more allocations of it wait",
        "Trial 11 (Experiment 7) uses 1 slot on node-1 since 2026-01-02 03:00:00 UTC; "
        "being preempted",
    ):
        assert line in text.splitlines()
    assert json.loads(said(det(cluster, "job", "explain", FIRST, "--json"))) == EXPLAINED


@pytest.mark.parametrize("word", ["c1d2", "C1D2E3F4", COMMANDS[0]["id"], "d1", "f1"])
def test_a_job_may_be_called_by_its_interactive_task(cluster: ScriptedMaster, word: str) -> None:
    assert said(det(cluster, "job", "update", word, "--priority", "3")) == ""
    assert updates(cluster) == [[{"jobId": SECOND, "priority": 3}]]


def test_an_id_may_begin_with_digits_only(cluster: ScriptedMaster) -> None:
    cluster.on("GET", "/api/v1/windlass/jobs/12345678", {"job": OTHER})
    assert said(det(cluster, "job", "update", "12345678", "--priority", "3")) == ""
    assert updates(cluster) == [[{"jobId": SECOND, "priority": 3}]]
    cluster.on("GET", "/api/v1/windlass/jobs/9999999999", {"job": OTHER})
    assert said(det(cluster, "job", "update", "9999999999", "--priority", "4")) == ""
    assert cluster.calls("GET", "/api/v1/experiments/9999999999") == [], "no experiment's number"
    short = refused(det(cluster, "job", "update", "1234567", "--priority", "3"))
    assert "job or experiment '1234567' not found" in short


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("", "Give a job id, its first characters, or an experiment id"),
        ("8", "Experiment 8 has already failed"),
        ("c1aa", f"Command {COMMANDS[1]['id']} has already ended (success)"),
        ("c1", "2 task ids begin with 'c1'"),
        ("e9", "job 'e9' not found"),
    ],
)
def test_what_stands_for_no_job_is_said(cluster: ScriptedMaster, word: str, message: str) -> None:
    assert message in refused(det(cluster, "job", "explain", word))
    assert message in refused(det(cluster, "job", "update", word, "-w", "2"))
    assert updates(cluster) == []


def test_an_unknown_pool_is_refused_with_those_there_are(cluster: ScriptedMaster) -> None:
    missing = (404, {"error": {"code": 5, "error": "resource pool 'gpu' not found"}})
    cluster.on("GET", "/api/v1/job-queues", lambda _: missing)
    cluster.on("POST", "/api/v1/job-queues", lambda _: missing)
    message = 'error: Resource pool "gpu" does not exist; use one of default, shared'
    assert refused(det(cluster, "job", "list", "-p", "gpu")) == message
    assert refused(det(cluster, "job", "list", "-p", "gpu", "--json")) == message
    assert refused(det(cluster, "job", "update", "7", "--resource-pool", "gpu")) == message
    other = refused(det(cluster, "job", "update", "7", "--resource-pool", "shared"))
    assert other == "error: resource pool 'gpu' not found", "what else is missing stays as it was"
    empty = refused(det(cluster, "job", "update", "7", "--resource-pool", ""))
    assert empty == "error: --resource-pool: expected the name of a pool, but it is empty"


def test_people_read_the_names_of_tasks_and_programs_the_ids(cluster: ScriptedMaster) -> None:
    live, over = f"3.{FIRST}.2", f"{SECOND}.1"
    tasks = {live: {"allocationId": live, "name": "Trial 9 (Experiment 3)"}}
    cluster.on("GET", "/api/v1/tasks", {"allocationIdToSummary": tasks})
    reason = {"kind": "needs_release", "text": f"starts when {live} has given back slots"}
    waiting = [{**EXPLAINED["waiting"][0], "reason": reason}]
    answer = {**EXPLAINED, "waiting": waiting, "lastRelease": f"needed by {over}"}
    cluster.on("GET", f"/api/v1/windlass/jobs/{FIRST}/explain", answer)
    page = {"jobs": [{**OTHER, "waitingReason": reason["text"]}], "pagination": {}}
    cluster.on("GET", "/api/v1/job-queues", page)
    (row,) = table(said(det(cluster, "job", "list", "--csv")))
    assert row["Waiting for"] == "starts when Trial 9 (Experiment 3) has given back slots"
    assert json.loads(said(det(cluster, "job", "list", "--json"))) == page["jobs"]
    lines = said(det(cluster, "job", "explain", "7")).splitlines()
    assert "  reason             starts when Trial 9 (Experiment 3) has given back slots" in lines
    assert f"last preemption  needed by {over}" in lines, "nobody knows what is over"
    assert json.loads(said(det(cluster, "job", "explain", "7", "--json"))) == answer


def test_a_run_that_starts_says_how_far_it_is(cluster: ScriptedMaster) -> None:
    (run,) = EXPLAINED["holding"]
    runs = [
        {**run, "state": state, "since": None, "releasing": False, "name": f"Trial {state}"}
        for state in ("PULLING", "STARTING", "RUNNING")
    ]
    answer = {**EXPLAINED, "waiting": [], "waitingTotal": 0, "holding": runs}
    cluster.on("GET", f"/api/v1/windlass/jobs/{FIRST}/explain", answer)
    text = said(det(cluster, "job", "explain", "7"))
    assert "Trial PULLING uses 1 slot on node-1; its image is being pulled or built\n" in text
    assert "Trial STARTING uses 1 slot on node-1; it is being started\n" in text
    assert text.rstrip().endswith("Trial RUNNING uses 1 slot on node-1")


def test_runs_that_differ_in_their_place_only_are_one_paragraph(cluster: ScriptedMaster) -> None:
    first = EXPLAINED["waiting"][0]
    texts = ["no slots are free", "queued behind 1 request", "queued behind 2 requests"]
    waiting = [{**first, "reason": {"kind": "queued", "text": text}} for text in texts]
    answer = {**EXPLAINED, "waiting": waiting, "waitingTotal": 3, "holding": []}
    cluster.on("GET", f"/api/v1/windlass/jobs/{FIRST}/explain", answer)
    text = said(det(cluster, "job", "explain", "7"))
    assert text.splitlines()[-4:] == [
        "  reason              no slots are free",
        "  reason of the last  queued behind 2 requests",
        "  what helps          wait for the 3 jobs ahead of it",
        "  expected to start   2026-01-02 04:00:00 UTC",
    ]
    assert "Trial 12 (Experiment 7) and 2 more wait for 3 slots each" in text


def test_runs_that_wait_alike_are_explained_once(cluster: ScriptedMaster) -> None:
    first, other = EXPLAINED["waiting"]
    waiting = [{**first, "name": f"Trial {n}"} for n in (3, 1)] + [other, {**first, "name": "T"}]
    answer = {**EXPLAINED, "waiting": waiting, "waitingTotal": 4, "holding": []}
    cluster.on("GET", f"/api/v1/windlass/jobs/{FIRST}/explain", answer)
    text = said(det(cluster, "job", "explain", "7"))
    alike = "Trial 3 and 2 more wait for 3 slots each since 2026-01-02 03:04:05 UTC"
    assert [line for line in text.splitlines() if "wait" in line.split("  ")[0]] == [
        alike,
        "Trial 13 (Experiment 7) waits",
    ]
    assert text.count("queued behind 3 jobs") == 1


@pytest.mark.parametrize(
    ("verb", "value", "resources", "shown"),
    [
        ("priority", "7", {"priority": 7}, "priority of experiment 7 to 7"),
        ("weight", "2.5", {"weight": 2.5}, "weight of experiment 7 to 2.5"),
        ("max-slots", "3", {"maxSlots": 3}, "max_slots of experiment 7 to 3"),
        ("max-slots", "none", {"maxSlots": None}, "max_slots of experiment 7 to none"),
        ("max-slots", "NULL", {"maxSlots": None}, "max_slots of experiment 7 to none"),
    ],
)
def test_the_resources_of_an_experiment_are_set(
    cluster: ScriptedMaster, verb: str, value: str, resources: dict[str, Any], shown: str
) -> None:
    assert said(det(cluster, "e", "set", verb, "7", value)) == f"Set {shown}\n"
    (asked,) = cluster.calls("PATCH", "/api/v1/experiments/7")
    assert asked.body == {"id": 7, "resources": resources}


def test_the_master_says_why_settings_are_refused(cluster: ScriptedMaster) -> None:
    ended = (400, {"error": {"code": 9, "error": "Experiment 8 has already failed"}})
    cluster.on("PATCH", "/api/v1/experiments/.*", lambda _: ended)
    line = refused(det(cluster, "e", "set", "weight", "8", "2"))
    assert line == "error: Experiment 8 has already failed"


def test_a_limit_must_be_a_number(cluster: ScriptedMaster) -> None:
    line = refused(det(cluster, "experiment", "set", "max-slots", "7", "many"))
    assert 'must be a number or none, not "many"' in line
    assert cluster.asked == []


def test_short_ids_stay_unique_and_are_no_experiment_ids() -> None:
    assert short_ids([FIRST, SECOND]) == ["0a1b2c3d-0", "0a1b2c3d-1"]
    assert short_ids([FIRST]) == ["0a1b2c3d"]
    assert short_ids(["12345678-9abc-4def-8000-000000000000"]) == ["12345678-"]
    assert short_ids(["short", "short"]) == ["short", "short"]
    assert short_ids([]) == []
