"""What failed says why, where its log is, and is felt in the exit code of what waited for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app
from windlass.sdk.wire import Json

PAGE = {"endIndex": 1, "total": 1}
WHY = "trial 11 failed"
CAUSE = "exit code 3 after 1 restart"
EXPERIMENT: Json = {"id": 7, "name": "digits", "state": "STATE_ERROR", "error": WHY}
TRIAL: Json = {"id": 11, "experimentId": 7, "state": "STATE_ERROR", "error": CAUSE, "hparams": {}}
GOOD: Json = {"id": 10, "experimentId": 7, "state": "STATE_COMPLETED", "error": "", "hparams": {}}


@pytest.fixture
def failed(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "determined"}})
    master.on("GET", "/api/v1/experiments", {"experiments": [EXPERIMENT], "pagination": PAGE})
    master.on("GET", "/api/v1/experiments/7", {"experiment": EXPERIMENT, "config": {}})
    trials = {"trials": [GOOD, TRIAL], "pagination": {"endIndex": 2, "total": 2}}
    master.on("GET", "/api/v1/experiments/7/trials", trials)
    master.on("GET", "/api/v1/trials/11", {"trial": TRIAL})
    master.on("GET", "/api/v1/trials/11/workloads", {"workloads": [], "pagination": PAGE})
    return master


def det(master: ScriptedMaster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments])


def test_wait_says_why_and_where_the_log_is(failed: ScriptedMaster) -> None:
    result = det(failed, "e", "wait", "7", "--polling-interval", "0.1")
    assert result.exit_code == 1
    assert result.stdout == "Experiment 7: ERROR\n"
    assert result.stderr.splitlines()[-3:] == [
        f"Experiment 7 failed: {WHY}",
        f"Trial 11 failed: {CAUSE}",
        "Show its log: det trial logs 11",
    ]


def test_waiting_for_what_completed_tells_what_was_wrong_with_it(failed: ScriptedMaster) -> None:
    problem = 'metric "loss" of the searcher was not in the validation metrics; reported: accuracy'
    completed = {"id": 7, "state": "STATE_COMPLETED", "error": problem}
    failed.on("GET", "/api/v1/experiments/7", {"experiment": completed})
    result = det(failed, "e", "wait", "7", "--polling-interval", "0.1")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == f"warning: {problem}"


def test_waiting_for_what_was_canceled_fails_without_naming_an_error(
    failed: ScriptedMaster,
) -> None:
    canceled = {"id": 7, "state": "STATE_CANCELED"}
    failed.on("GET", "/api/v1/experiments/7", {"experiment": canceled})
    failed.on("GET", "/api/v1/experiments/7/trials", {"trials": [], "pagination": {}})
    result = det(failed, "e", "wait", "7", "--polling-interval", "0.1")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "Experiment 7 ended as CANCELED"


def test_describe_shows_the_errors_and_the_command_for_the_log(failed: ScriptedMaster) -> None:
    result = det(failed, "e", "describe", "7")
    assert result.exit_code == 0, "to describe it did not fail"
    assert f"error       {WHY}" in result.stdout.splitlines()
    assert CAUSE in result.stdout
    assert "Show its log: det trial logs 11" in result.stderr


def test_what_goes_on_with_a_failed_trial_has_not_ended(failed: ScriptedMaster) -> None:
    running = {"experiment": {"id": 7, "state": "STATE_RUNNING"}, "config": {}}
    failed.on("GET", "/api/v1/experiments/7", running)
    said = det(failed, "e", "describe", "7").stderr.splitlines()
    assert said == [f"Trial 11 failed: {CAUSE}", "Show its log: det trial logs 11"]


def test_the_list_has_the_error_of_each(failed: ScriptedMaster) -> None:
    result = det(failed, "e", "list")
    header, row = result.stdout.splitlines()
    assert header.endswith("Error")
    assert row.endswith(WHY)
    assert "det experiment describe 7" in result.stderr


def test_a_trial_says_why_it_failed(failed: ScriptedMaster) -> None:
    result = det(failed, "t", "describe", "11")
    assert CAUSE in result.stdout
    assert "Show its log: det trial logs 11" in result.stderr


def test_many_failed_trials_are_counted(failed: ScriptedMaster) -> None:
    trials = [TRIAL | {"id": number} for number in range(5)]
    answer = {"trials": trials, "pagination": {"endIndex": 5, "total": 5}}
    failed.on("GET", "/api/v1/experiments/7/trials", answer)
    result = det(failed, "e", "wait", "7", "--polling-interval", "0.1")
    assert result.stderr.count("Show its log") == 3
    assert "2 more trials failed: det experiment list-trials 7" in result.stderr


def test_following_a_trial_that_fails_is_a_failure(failed: ScriptedMaster, tmp_path: Path) -> None:
    failed.on("POST", "/api/v1/experiments", {"experiment": {"id": 7}, "warnings": []})
    answer = {"trials": [TRIAL], "pagination": PAGE}
    failed.on("GET", "/api/v1/experiments/7/trials", answer)
    lines = b'{"result": {"id": "1", "message": "boom\\n"}}\n'
    failed.on("GET", "/api/v1/trials/11/logs", lambda _: (200, lines))
    looks = [TRIAL | {"state": "STATE_RUNNING", "error": ""}, TRIAL]
    failed.on("GET", "/api/v1/trials/11", lambda _: (200, {"trial": looks.pop(0)}))
    (tmp_path / "config.yaml").write_text("name: x\n")
    result = det(failed, "e", "create", str(tmp_path / "config.yaml"), "--follow-first-trial")
    assert result.exit_code == 1
    assert result.stdout.endswith("boom\n")
    assert f"Trial 11 failed: {CAUSE}" in result.stderr


def test_following_an_experiment_that_fails_without_a_trial(
    failed: ScriptedMaster, tmp_path: Path
) -> None:
    failed.on("POST", "/api/v1/experiments", {"experiment": {"id": 7}, "warnings": []})
    failed.on("GET", "/api/v1/experiments/7/trials", {"trials": [], "pagination": {}})
    (tmp_path / "config.yaml").write_text("name: x\n")
    result = det(failed, "e", "create", str(tmp_path / "config.yaml"), "-f")
    assert result.exit_code == 1
    assert f"Experiment 7 failed: {WHY}" in result.stderr


def test_what_the_master_refuses_names_the_file(failed: ScriptedMaster, tmp_path: Path) -> None:
    refusal = {"error": {"error": "<config>.searcher.metric: is required"}}
    failed.on("POST", "/api/v1/(experiments|commands)", lambda _: (400, refusal))
    path = tmp_path / "search.yaml"
    path.write_text("name: x\n")
    for words in (["e", "create", str(path)], ["cmd", "run", "--config-file", str(path), "ls"]):
        result = det(failed, *words)
        assert result.exit_code == 1
        assert result.stderr == f"error: {path}: <config>.searcher.metric: is required\n"
