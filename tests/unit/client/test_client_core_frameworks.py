"""What callbacks of training frameworks do, without the frameworks: reports, checkpoints, the end of a run."""

from __future__ import annotations

import importlib
import math
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import TrialMaster
from test_client_core_distributed import run_ranks

from windlass import core
from windlass.core._checkpoint import CheckpointContext, LocalReporter
from windlass.core._framework_trial import SAVING_S, FrameworkTrial, ends_in_time, numbers
from windlass.core._preempt import DummyPreemptContext
from windlass.core._profiler import DummyProfilerContext
from windlass.core._searcher import SearcherContext
from windlass.core._train import DummyTrainContext
from windlass.storage import LocalStorage

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)  # noqa: UP017


class Tensor:
    """As torch's: its size is a method."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def numel(self) -> int:
        return len(self.values)

    def size(self) -> int:
        return len(self.values)

    def item(self) -> float:
        return self.values[0]


class Scalar:
    """As NumPy's."""

    size = 1

    def item(self) -> float:
        return 0.25


def test_numbers_are_reported_and_nothing_else() -> None:
    logged = {"loss": 0.5, "tensor": Tensor(1.5), "scalar": Scalar(), "nan": math.nan}
    others = {"text": "a", "none": None, "two": Tensor(1, 2), "list": [1]}
    found = numbers({**logged, **others})
    assert found.keys() == logged.keys()
    assert (found["loss"], found["tensor"], found["scalar"]) == (0.5, 1.5, 0.25)


def reported(trial: TrialMaster) -> list[tuple[str, int, dict[str, Any]]]:
    """Group, step and values of each report."""
    return [
        (body["group"], body["metrics"]["stepsCompleted"], body["metrics"]["metrics"]["avgMetrics"])
        for name, body in trial.reports()
        if name == "metrics"
    ]


def test_what_is_logged_twice_at_a_step_is_reported_once(trial: TrialMaster) -> None:
    with core.init() as context:
        run = FrameworkTrial(context)
        run.report("training", 4, {"loss": 0.5, "epoch": 0})
        run.report("training", 4, {"loss": 0.51, "loss_epoch": 0.6, "epoch": 0})
        run.report("training", 4, {"loss": 0.51})
        run.report("validation", 4, {"loss": 0.7})
        run.report("training", 8, {"loss": 0.4})
    assert reported(trial) == [
        ("training", 4, {"loss": 0.5, "epoch": 0}),
        ("training", 4, {"loss_epoch": 0.6}),
        ("validation", 4, {"loss": 0.7}),
        ("training", 8, {"loss": 0.4}),
    ]


def test_progress_is_a_fraction_of_what_is_known(trial: TrialMaster) -> None:
    with core.init() as context:
        run = FrameworkTrial(context)
        run.report_progress(3, 4)
        run.report_progress(5, 4)
        run.report_progress(1, math.inf)
        run.report_progress(1, -1)
    sent = [body["progress"] for name, body in trial.reports() if name == "progress"]
    assert sent == [0.75, 1.0]


def test_a_preemption_is_acknowledged_and_stays(trial: TrialMaster) -> None:
    with core.init() as context:
        run = FrameworkTrial(context)
        assert (run.should_stop(), run.preempted) == (False, False)
        trial.preempt.set()
        while not run.should_stop():
            pass
        assert (run.should_stop(), run.preempted) == (True, True)
    assert [name for name, _ in trial.reports()].count("ack_preemption") == 1


def test_a_folder_becomes_a_checkpoint_and_the_next_run_gets_it(
    trial: TrialMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (4, 8):
        (tmp_path / f"out/checkpoint-{step}").mkdir(parents=True)
        (tmp_path / f"out/checkpoint-{step}/model").write_text(str(step))
    with core.init() as context:
        run = FrameworkTrial(context)
        assert run.fetch(tmp_path / "in") is None
        run.upload(tmp_path / "out", "checkpoint-8", 8)
    (report,) = trial.server.calls("POST", "/api/v1/checkpoints")
    files = report.body["resources"].keys()
    assert {name for name in files if not name.endswith("/")} == {
        "metadata.json",
        "checkpoint-8/model",
    }
    monkeypatch.setenv("DET_LATEST_CHECKPOINT", report.body["uuid"])
    with core.init() as context:
        assert FrameworkTrial(context).fetch(tmp_path / "in") == {"steps_completed": 8}
    assert (tmp_path / "in/checkpoint-8/model").read_text() == "8"


class Counted(DummyTrainContext):
    """Counts what it is asked to report."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        self.calls += 1

    def report_progress(self, progress: float) -> None:
        self.calls += 1


def test_of_several_ranks_the_chief_reports_and_all_store_their_part(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "storage")

    def program(ranks: core.DistributedContext) -> tuple[int, bool]:
        train = Counted()
        preempt = DummyPreemptContext(ranks)
        context = core.Context(
            checkpoint=CheckpointContext(ranks, storage, LocalReporter(storage)),
            distributed=ranks,
            preempt=preempt,
            train=train,
            searcher=SearcherContext(train, ranks, 1),
            profiler=DummyProfilerContext(),
        )
        preempt.start()
        run = FrameworkTrial(context)
        run.report("training", 2, {"loss": 1.0})
        run.report_progress(1, 2)
        # The ranks of a machine share a directory, and the machines do not.
        out = tmp_path / f"machine-{ranks.cross_rank}"
        (out / "checkpoint-2").mkdir(parents=True, exist_ok=True)
        (out / f"checkpoint-2/rng_{ranks.rank}").write_text(str(ranks.rank))
        run.upload(out, "checkpoint-2", 2)
        return train.calls, run.should_stop()

    found = run_ranks(program, machines=2, per_machine=2)
    assert found == [(2, False), (0, False), (0, False), (0, False)]
    (checkpoint,) = (tmp_path / "storage").iterdir()
    names = {path.name for path in (checkpoint / "checkpoint-2").iterdir()}
    assert names == {f"rng_{rank}" for rank in range(4)}


@pytest.mark.parametrize(
    ("after_s", "batches", "fits"),
    [(None, 10**9, True), (0, 0, True), (SAVING_S + 11, 10, True), (SAVING_S + 10, 10, False)],
)
def test_an_epoch_goes_on_to_its_end_if_that_is_before_the_deadline(
    after_s: float | None, batches: int, fits: bool
) -> None:
    deadline = None if after_s is None else NOW + timedelta(seconds=after_s)
    assert ends_in_time(NOW, deadline, batches, 1.0) is fits


@pytest.mark.parametrize("framework", ["transformers", "lightning", "keras"])
def test_a_framework_that_is_missing_is_named_with_its_extra(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (framework, f"{framework}.pytorch"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"windlass.core.{framework}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"windlass-cluster\[{framework}\]"):
        importlib.import_module(f"windlass.core.{framework}")
