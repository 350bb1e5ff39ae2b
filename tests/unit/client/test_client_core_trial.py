"""`core.init()` inside a trial, against a scripted master."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster, TrialMaster

from windlass import core
from windlass.base.errors import InvalidArgument


def _metrics(trial: TrialMaster) -> list[dict[str, Any]]:
    return [body for name, body in trial.reports() if name == "metrics"]  # type: ignore[misc]


def test_metrics_arrive_in_order_and_as_the_contract_wants_them(trial: TrialMaster) -> None:
    with core.init() as context:
        for step in range(1, 51):
            context.train.report_training_metrics(step, {"loss": 1 / step})
        context.train.report_validation_metrics(50, {"loss": math.nan, "top": -math.inf})
        context.train.report_metrics("inference", 51, {"n": 1})
    reports = _metrics(trial)
    assert [r["metrics"]["stepsCompleted"] for r in reports] == [*range(1, 51), 50, 51]
    assert reports[0] == {
        "group": "training",
        "metrics": {
            "metrics": {"avgMetrics": {"loss": 1.0}, "batchMetrics": None},
            "trialId": 5,
            "trialRunId": 1,
            "stepsCompleted": 1,
            "reportTime": None,
        },
    }
    assert reports[50]["metrics"]["metrics"]["avgMetrics"] == {"loss": "NaN", "top": "-Infinity"}
    assert reports[51]["group"] == "inference"


def test_the_run_is_announced_with_its_storage(trial: TrialMaster) -> None:
    with core.init() as context:
        assert context.info is not None
        assert context.info.trial.hparams == {"lr": 0.1}
    start = trial.server.calls("POST", "/api/v1/runs/start")[0]
    assert start.body["runId"] == 5
    assert start.body["checkpointStorage"]["type"] == "directory"


def test_a_refused_report_is_raised_at_the_end(trial: TrialMaster) -> None:
    refusal = {"error": {"error": "invalid run id"}}
    trial.server.on("POST", "/api/v1/trials/5/metrics", lambda _: (400, refusal))
    with pytest.raises(InvalidArgument, match="invalid run id"), core.init() as context:
        context.train.report_training_metrics(1, {"loss": 1.0})


def test_after_a_refused_report_nothing_more_is_sent(trial: TrialMaster) -> None:
    trial.server.on("POST", "/api/v1/trials/5/metrics", lambda _: (400, {"message": "no"}))
    with core.init() as context:
        context.train.report_training_metrics(1, {"loss": 1.0})
        with (
            pytest.raises(InvalidArgument, match="no"),
            context.checkpoint.store_path({"steps_completed": 1}),
        ):
            pass
        with pytest.raises(InvalidArgument, match="no"):
            context.train.report_training_metrics(2, {"loss": 1.0})
    assert len(_metrics(trial)) == 1
    assert trial.server.calls("POST", "/api/v1/checkpoints") == []


def test_a_refused_report_does_not_hide_the_users_own_error(trial: TrialMaster) -> None:
    trial.server.on("POST", "/api/v1/trials/5/metrics", lambda _: (400, {}))

    def train() -> None:
        with core.init() as context:
            context.train.report_training_metrics(1, {"loss": 1.0})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()


def test_metrics_without_json_form_are_refused_where_they_are_reported(trial: TrialMaster) -> None:
    with core.init() as context:
        with pytest.raises(TypeError, match="no JSON form"):
            context.train.report_training_metrics(1, {"loss": object()})
        with pytest.raises(ValueError, match="None"):
            context.train.report_validation_metrics(1, {"loss": None})
        with pytest.raises(ValueError, match="dot"):
            context.train.report_metrics("a.b", 1, {})
    assert _metrics(trial) == []


def test_a_checkpoint_is_stored_then_reported_after_its_metrics(
    trial: TrialMaster, tmp_path: Path
) -> None:
    with core.init() as context:
        context.train.report_validation_metrics(2, {"loss": 0.5})
        with context.checkpoint.store_path({"steps_completed": 2}) as (path, uuid):
            (path / "sub").mkdir()
            (path / "sub" / "state.json").write_text("{}")
            assert [name for name, _ in trial.reports() if name == "checkpoints"] == []
        with context.checkpoint.restore_path(uuid) as restored:
            assert (restored / "sub" / "state.json").read_text() == "{}"
            assert json.loads((restored / "metadata.json").read_text()) == {"steps_completed": 2}
    names = [name for name, _ in trial.reports()]
    assert names.index("metrics") < names.index("checkpoints")
    body = trial.server.calls("POST", "/api/v1/checkpoints")[0].body
    assert body["uuid"] == uuid
    assert body["metadata"] == {"steps_completed": 2}
    assert body["state"] == "STATE_COMPLETED"
    assert body["storageId"] == 7
    assert (body["taskId"], body["allocationId"]) == ("1.a1b2", "1.a1b2.1")
    assert body["resources"]["sub/"] == "0"
    assert body["resources"]["sub/state.json"] == "2"
    assert (tmp_path / "shared" / uuid / "metadata.json").exists()


def test_an_upload_selects_and_a_download_brings_it_back(
    trial: TrialMaster, tmp_path: Path
) -> None:
    source = tmp_path / "out"
    source.mkdir()
    (source / "keep.bin").write_bytes(b"12345")
    (source / "drop.tmp").write_bytes(b"x")
    with core.init() as context:
        uuid = context.checkpoint.upload(
            source, {"steps_completed": 1}, selector=lambda p: not p.endswith(".tmp")
        )
        context.checkpoint.download(uuid, tmp_path / "in", selector=lambda p: p == "keep.bin")
    resources = trial.server.calls("POST", "/api/v1/checkpoints")[0].body["resources"]
    assert set(resources) == {"keep.bin", "metadata.json"}
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["keep.bin"]


def test_a_failing_save_leaves_nothing(trial: TrialMaster, tmp_path: Path) -> None:
    def save_half(context: core.Context) -> None:
        with context.checkpoint.store_path({"steps_completed": 1}) as (path, _):
            (path / "half").write_text("half")
            raise ZeroDivisionError

    with core.init() as context:
        with pytest.raises(ZeroDivisionError):
            save_half(context)
        with (
            pytest.raises(ValueError, match="steps_completed"),
            context.checkpoint.store_path({}),
        ):
            pass
    assert list((tmp_path / "shared").iterdir()) == []
    assert trial.server.calls("POST", "/api/v1/checkpoints") == []


def test_delete_removes_and_tells(trial: TrialMaster, tmp_path: Path) -> None:
    trial.server.on("PATCH", "/api/v1/checkpoints", {})
    with core.init() as context:
        with context.checkpoint.store_path({"steps_completed": 1}) as (_, uuid):
            pass
        context.checkpoint.delete(uuid)
        with pytest.raises(core.CheckpointNotFound), context.checkpoint.restore_path(uuid):
            pass
    patch = trial.server.calls("PATCH", "/api/v1/checkpoints")[0].body
    assert patch == {"checkpoints": [{"uuid": uuid, "resources": {"resources": {}}}]}


def test_preemption_is_seen_and_acknowledged_once(trial: TrialMaster) -> None:
    ack = r"/api/v1/allocations/1\.a1b2\.1/signals/ack_preemption"
    poll = r"/api/v1/allocations/1\.a1b2\.1/signals/preemption"
    with core.init() as context:
        assert context.preempt.should_preempt() is False
        assert (context.preempt.deadline, context.preempt.reason) == (None, None)
        trial.server.wait_for("GET", poll, 2)
        trial.preempt.set()
        while not context.preempt.should_preempt(auto_ack=False):
            pass
        assert trial.server.calls("POST", ack) == []
        assert context.preempt.deadline == datetime(2026, 1, 1, 12, tzinfo=UTC)
        assert context.preempt.reason == "machine ends"
        assert context.preempt.should_preempt() is True
        assert context.preempt.should_preempt() is True
    polls = trial.server.calls("GET", poll)
    assert [p.query["timeout_seconds"] for p in polls] == [["0"], ["60"]]
    assert len(trial.server.calls("POST", ack)) == 1


def test_should_preempt_needs_a_started_context(trial: TrialMaster) -> None:
    context = core.init()
    with pytest.raises(RuntimeError, match="before"):
        context.preempt.should_preempt()
    context.start()
    context.close()


def test_invalid_hyperparameters_end_the_trial_cleanly(trial: TrialMaster) -> None:
    with pytest.raises(SystemExit) as exit_, core.init():
        raise core.InvalidHP("lr must be positive")
    assert exit_.value.code == 0
    assert ("early_exit", {"reason": "EXITED_REASON_INVALID_HP"}) in trial.reports()


def test_progress_and_searcher_operations(trial: TrialMaster) -> None:
    with core.init() as context:
        context.train.report_progress(0.25)
        with pytest.raises(ValueError, match="fraction"):
            context.train.report_progress(1.5)
        operations = list(_completing(context.searcher.operations()))
        assert operations == [4]
        assert context.searcher.get_configured_units() is core.Unit.EPOCHS
    progress = [body for name, body in trial.reports() if name == "progress"]
    assert progress == [{"progress": 0.25, "is_raw": True}, {"progress": 0.5, "is_raw": True}]


def _completing(operations: Any) -> Any:
    for operation in operations:
        operation.report_progress(operation.length / 2)
        operation.report_completed(0.1)
        yield operation.length


def test_best_validation_is_none_before_the_first(trial: TrialMaster) -> None:
    path = "/api/v1/experiments/3/searcher/best_searcher_validation_metric"
    with core.init() as context:
        assert context.train.get_experiment_best_validation() is None
        trial.server.on("GET", path, {"metric": 0.5})
        assert context.train.get_experiment_best_validation() == 0.5


def test_several_slots_need_a_distributed_context(
    trial: TrialMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_SLOT_IDS", "[0, 1]")
    with pytest.raises(ValueError, match="distributed"):
        core.init()


def test_off_the_cluster_the_same_program_runs(home: Path) -> None:
    with core.init() as context:
        assert context.info is None
        context.train.report_training_metrics(1, {"loss": 1.0})
        context.train.report_progress(1.0)
        assert context.preempt.should_preempt() is False
        with context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
            (path / "w").write_text("w")
        assert context.checkpoint.get_metadata(uuid) == {"steps_completed": 1}
    assert (home / ".local/share/windlass/checkpoints" / uuid / "w").exists()


def test_a_task_that_is_no_trial_makes_no_calls(
    master: ScriptedMaster, trial: TrialMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_TASK_TYPE", "COMMAND")
    with core.init() as context:
        context.train.report_training_metrics(1, {"loss": 1.0})
        assert context.info is not None
        with pytest.raises(RuntimeError, match="COMMAND"):
            _ = context.info.trial
    assert master.asked == []
