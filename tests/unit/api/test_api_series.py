"""Metrics over time, over REST."""

from __future__ import annotations

import asyncio
import json

from tests.fakes.api_world import ASHA, SINGLE, ApiWorld


async def test_the_validation_history_has_what_improved(world: ApiWorld) -> None:
    await world.add_agent(slots=4)
    id_ = await world.create(ASHA)
    path = f"/api/v1/experiments/{id_}/validation-history"
    for index in (0, 1):
        await world.run_of(id_, index)
    first, second = world.trial_id(id_, 0), world.trial_id(id_, 1)
    assert (await world.ok("GET", path))["validationHistory"] == []
    reports = ((first, 1, 3), (second, 1, 4), (second, 2, 2.5), (first, 2, "NaN"), (first, 3, 2))
    for trial, steps, loss in reports:
        world.clock.advance(1)
        assert (await world.report(trial, "validation", steps, loss=loss, epochs=0.1)).is_success
    history = (await world.ok("GET", path))["validationHistory"]
    found = [(one["trialId"], one["searcherMetric"]) for one in history]
    assert found == [(first, 3.0), (second, 2.5), (first, 2.0)]
    times = [one["endTime"] for one in history]
    assert times == sorted(times)
    assert len(set(times)) == 3
    await world.refused(404, "GET", "/api/v1/experiments/99/validation-history")


async def test_metrics_of_the_trials_that_began_with_a_checkpoint(world: ApiWorld) -> None:
    await world.add_agent(slots=2)
    first = await world.create()
    run = await world.run_of(first)
    await world.checkpoint(run, "0" * 32, 3)
    path = f"/api/v1/checkpoints/{'0' * 32}/metrics"
    assert (await world.ok("GET", path))["metrics"] == []
    warm = f"searcher: {{name: single, source_checkpoint_uuid: {'0' * 32},"
    second = await world.create(SINGLE.replace("searcher: {name: single,", warm))
    await world.run_of(second)
    trial = world.trial_id(second)
    await world.report(trial, "training", 2, loss=2.0)
    await world.report(trial, "validation", 1, loss=1.0)
    reports = (await world.ok("GET", path))["metrics"]
    assert [(one["trialId"], one["group"]) for one in reports] == [
        (trial, "validation"),
        (trial, "training"),
    ]
    only = (await world.ok("GET", f"{path}?metricGroup=training"))["metrics"]
    assert [one["totalBatches"] for one in only] == [2]
    for kind, count in (("FINE_TUNING", 2), ("INFERENCE", 0)):
        some = await world.ok("GET", f"{path}?trialSourceInfoType=TRIAL_SOURCE_INFO_TYPE_{kind}")
        assert len(some["metrics"]) == count
    assert "checkpoint" in await world.refused(404, "GET", "/api/v1/checkpoints/none/metrics")


async def test_fields_of_logs_are_read_and_followed(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run, trial = await world.run_of(id_), world.trial_id(id_)
    token = world.task_token(run)

    async def log(**fields: object) -> None:
        line = {"taskId": run.task_id, "log": "x", **fields}
        await world.ok("POST", "/api/v1/task/logs", {"logs": [line]}, token=token)

    await log(rankId=1, stdtype="stdout")
    await log(rankId=0, stdtype="stdout")
    path = f"/api/v1/tasks/{run.task_id}/logs/fields"
    (fields,) = await world.lines(path)
    assert fields["rankIds"] == [0, 1]
    assert fields["stdtypes"] == ["stdout"]
    assert fields["agentIds"] == ["node-1"]
    assert fields["allocationIds"] == [run.id]
    assert "task" in fields["sources"]
    following = asyncio.create_task(world.lines(f"/api/v1/trials/{trial}/logs/fields?follow=true"))
    while not len(world.services.logs._followers):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)
    await log(rankId=1, stdtype="stdout")
    await log(rankId=7, stdtype="stderr")
    await world.finish(run)
    found = await following
    assert found[0]["rankIds"] == [0, 1]
    assert found[-1]["rankIds"] == [0, 1, 7]
    assert found[-1]["stdtypes"] == ["stderr", "stdout"]
    assert len({json.dumps(one) for one in found}) == len(found)
    for kind in ("trials/99", "tasks/none"):
        await world.refused(404, "GET", f"/api/v1/{kind}/logs/fields")


async def test_older_clients_report_and_start(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run, trial = await world.run_of(id_), world.trial_id(id_)
    path, token = f"/api/v1/trials/{trial}", world.task_token(run)
    for group, steps in (("training", 3), ("validation", 4)):
        metrics = {"avgMetrics": {"loss": steps / 2}}
        body = {"trialRunId": 1, "stepsCompleted": steps, "metrics": metrics}
        await world.ok("POST", f"{path}/{group}_metrics", body, token=token)
        await world.refused(401, "POST", f"{path}/{group}_metrics", body, token="nobody")
    shown = (await world.ok("GET", path))["trial"]
    assert shown["totalBatchesProcessed"] == 4
    assert shown["searcherMetricValue"] == 2.0
    assert shown["summaryMetrics"]["avg_metrics"]["loss"]["last"] == 1.5
    start = await world.ok("POST", f"{path}/start", {"resume": False}, token=token)
    assert start == {"trialRunId": 1, "latestCheckpoint": None, "stepsCompleted": 0}
    await world.checkpoint(run, "0" * 32, 4)
    await world.finish(run, 1)
    again = await world.run_of(id_)
    assert again.id != run.id
    start = await world.ok("POST", f"{path}/start", {"trialId": trial, "resume": True})
    assert start == {"trialRunId": 2, "latestCheckpoint": "0" * 32, "stepsCompleted": 4}
    assert "resume" in await world.refused(400, "POST", f"{path}/start", {})
    await world.finish(again)
    assert "ended" in await world.refused(400, "POST", f"{path}/start", {"resume": True})


async def test_trials_are_compared(world: ApiWorld) -> None:
    await world.add_agent(slots=2)
    first, second = await world.create(), await world.create()
    for id_ in (first, second):
        await world.run_of(id_)
    one, two = world.trial_id(first), world.trial_id(second)
    for steps in range(1, 31):
        await world.report(one, "training", steps, loss=1 / steps, epoch=steps / 10)
    await world.report(two, "validation", 9, loss=0.5)
    await world.report(two, "own", 9, **{"a.b": 2})
    path = f"/api/v1/trials/time-series?trialIds={one}&trialIds={two}"
    trials = (await world.ok("GET", f"{path}&metricNames=loss"))["trials"]
    assert [item["trial"]["id"] for item in trials] == [one, two]
    (training,), (validation,) = (item["metrics"] for item in trials)
    assert (training["group"], training["type"]) == ("training", "METRIC_TYPE_TRAINING")
    assert [point["batches"] for point in training["data"]] == list(range(1, 31))
    assert training["data"][9]["values"] == {"loss": 0.1}
    assert training["data"][9]["epoch"] == 1.0
    assert validation["data"][0]["values"] == {"loss": 0.5}

    async def series(query: str) -> list[list[tuple[str, list[int]]]]:
        reply = await world.ok("GET", f"{path}&{query}")
        return [
            [(m["group"], [point["batches"] for point in m["data"]]) for m in item["metrics"]]
            for item in reply["trials"]
        ]

    sampled = await series("metricNames=loss&maxDatapoints=8&group=training")
    assert sampled == [[("training", [1, 15, 16, 30])], []]
    assert await series("metricIds=own.a.b") == [[], [("own", [9])]]
    some = await series("metricIds=training.loss&startBatches=28&endBatches=29")
    assert some == [[("training", [28, 29])], []]
    epochs = "timeSeriesFilter.name=epoch&timeSeriesFilter.doubleRange.gt=2.85"
    assert await series(f"metricNames=loss&{epochs}") == [[("training", [29, 30])], []]
    for query, word in (
        ("", "metricNames"),
        ("metricIds=loss", "group.name"),
        ("metricNames=loss&timeSeriesFilter.integerRange.gt=1", "batches"),
        ("metricNames=loss&timeSeriesFilter.name=time&timeSeriesFilter.integerRange.gt=1", "time"),
        ("metricNames=loss&maxDatapoints=-1", "maxDatapoints"),
    ):
        assert word in await world.refused(400, "GET", f"{path}&{query}")
    await world.refused(404, "GET", "/api/v1/trials/time-series?trialIds=99&metricNames=loss")
    await world.refused(400, "GET", "/api/v1/trials/time-series?metricNames=loss")
