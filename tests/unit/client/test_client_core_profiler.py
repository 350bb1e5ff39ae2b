"""`core_context.profiler`: measurements of this machine, as the master gets them."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from typing import Any

import pytest
from client_scripted_master import TrialMaster
from hypothesis import given
from hypothesis import strategies as st

from windlass import core
from windlass.core._profiler import ProfilerContext
from windlass.core._usage import Rates, averaged

METRICS = "/api/v1/trials/5/metrics"
GROUPS = {"cpu", "memory", "disk", "network"}

values = st.floats(-1e9, 1e9)


def reported(trial: TrialMaster, count: int = 4) -> dict[str, Any]:
    """Group -> its report."""
    return {
        asked.body["group"]: asked.body for asked in trial.server.wait_for("POST", METRICS, count)
    }


def switch_on(monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads(os.environ["DET_EXPERIMENT_CONFIG"]) | {"profiling": {"enabled": True}}
    monkeypatch.setenv("DET_EXPERIMENT_CONFIG", json.dumps(config))


def test_the_groups_arrive_as_the_published_profiler_sends_them(trial: TrialMaster) -> None:
    with core.init() as context:
        context.profiler.on(sampling_interval=0.1, samples_per_report=2)
        context.profiler.on()  # again: nothing
        groups = reported(trial)
    assert set(groups) >= GROUPS
    for body in groups.values():
        metrics = body["metrics"]
        assert (metrics["trialId"], metrics["trialRunId"], metrics["stepsCompleted"]) == (
            5,
            1,
            None,
        )
        assert datetime.fromisoformat(metrics["reportTime"]).utcoffset() is not None
        assert metrics["metrics"]["batchMetrics"] is None
    found = {g: body["metrics"]["metrics"]["avgMetrics"]["agent-0"] for g, body in groups.items()}
    assert 0 <= found["cpu"]["cpu_util_simple"] <= 100
    assert found["memory"]["memory_free"] > 0
    assert 0 <= found["disk"]["/"]["disk_util"] <= 100
    assert set(found["network"]) == {"net_throughput_sent", "net_throughput_recv"}
    assert found["network"]["net_throughput_sent"] >= 0


def test_it_is_off_unless_somebody_wants_it(trial: TrialMaster) -> None:
    with core.init() as context:
        assert context.profiler._thread is None
        context.train.report_training_metrics(1, {"loss": 1.0})
    assert [asked.body["group"] for asked in trial.server.calls("POST", METRICS)] == ["training"]


def test_the_configuration_switches_it_on_and_the_end_off(
    trial: TrialMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on(monkeypatch)
    with core.init() as context:
        thread = context.profiler._thread
        assert thread is not None
        assert thread.is_alive()
    assert not thread.is_alive()


def test_only_one_rank_of_a_machine_measures(
    trial: TrialMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on(monkeypatch)
    second = core.DummyDistributedContext()
    second.local_rank = 1
    with core.init(distributed=second) as context:
        assert context.profiler._thread is None


def test_a_refusal_ends_profiling_and_not_training(
    trial: TrialMaster, caplog: pytest.LogCaptureFixture
) -> None:
    trial.server.on("POST", METRICS, lambda _: (400, {"message": "no profiling"}))
    with core.init() as context:
        context.profiler.on(sampling_interval=0.1, samples_per_report=1)
        thread = context.profiler._thread
        assert thread is not None
        thread.join(30)
        assert not thread.is_alive()
    assert "profiling stops: no profiling" in caplog.text


def test_without_psutil_and_gpus_it_says_what_to_install(
    trial: TrialMaster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with core.init() as context:
        context.profiler.on()
        thread = context.profiler._thread
        assert thread is not None
        thread.join(30)
        assert not thread.is_alive()
    assert "install psutil" in caplog.text
    assert trial.server.calls("POST", METRICS) == []


@pytest.mark.parametrize(
    ("interval", "samples", "words"),
    [(0.01, 1, "sampling_interval must be 0.1 s or more"), (1, 0, "samples_per_report must be 1")],
)
def test_bad_intervals_are_named(
    trial: TrialMaster, interval: float, samples: int, words: str
) -> None:
    with core.init() as context, pytest.raises(ValueError, match=words):
        context.profiler.on(interval, samples)


def test_off_the_cluster_it_does_nothing() -> None:
    with core.init() as context:
        assert isinstance(context.profiler, ProfilerContext)
        context.profiler.on()
        context.profiler.off()


@given(st.lists(st.tuples(values, values), min_size=1))
def test_means_of_what_the_samples_have(pairs: list[tuple[float, float]]) -> None:
    means = averaged([{"a": a, "gpu": {"b": b}} for a, b in pairs] + [{}])
    assert means["a"] == pytest.approx(sum(a for a, _ in pairs) / len(pairs))
    assert means["gpu"]["b"] == pytest.approx(sum(b for _, b in pairs) / len(pairs))


def test_rates_are_per_second_and_never_negative() -> None:
    counters, times = iter([10.0, 30.0, 5.0, 6.0]), iter([0.0, 2.0, 3.0, 3.0])
    rates = Rates(lambda: {"bytes": next(counters)}, lambda: next(times))
    assert rates() == {"bytes": 10.0}
    assert rates() == {"bytes": 0.0}
    assert rates() == {}
