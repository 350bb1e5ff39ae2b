"""What tasks report, and how it is read again: metrics, checkpoints, logs, metadata."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.fakes.api_world import ApiWorld


async def test_metrics_are_reported_once_and_read_in_order(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    await world.run_of(id_)
    trial = world.trial_id(id_)
    for steps in (2, 1, 3):
        assert (await world.report(trial, "training", steps, loss=1 / steps)).status_code == 200
    assert (await world.report(trial, "training", 3, loss=1 / 3)).status_code == 200
    assert (await world.report(trial, "training", 3, loss=9)).status_code == 409
    assert (await world.report(trial, "validation", 3, loss="NaN", acc=0.5)).status_code == 200
    late = await world.report(trial, "training", 4, run_id=7, loss=1)
    assert late.status_code == 400
    assert "invalid run id, 7 (reported) != 1 (expected)" in late.text
    (page,) = await world.lines(f"/api/v1/trials/metrics/training_metrics?trialIds={trial}")
    assert [m["totalBatches"] for m in page["metrics"]] == [1, 2, 3]
    assert page["metrics"][0]["metrics"]["avg_metrics"] == {"loss": 1.0}
    (page,) = await world.lines(f"/api/v1/trials/metrics/validation_metrics?trial_ids={trial}")
    (validation,) = page["metrics"]
    assert validation["metrics"]["validation_metrics"] == {"loss": "NaN", "acc": 0.5}
    assert await world.lines(f"/api/v1/trials/metrics/trial_metrics?group=x&trialIds={trial}") == []
    await world.refused(400, "GET", "/api/v1/trials/metrics/training_metrics")
    work = await world.ok("GET", f"/api/v1/trials/{trial}/workloads")
    assert [w["training"] is not None for w in work["workloads"]] == [True, True, True, False]
    work = await world.ok(
        "GET", f"/api/v1/trials/{trial}/workloads?filter=FILTER_OPTION_VALIDATION"
    )
    assert len(work["workloads"]) == work["pagination"]["total"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"group": "a.b"}, "group"),
        ({"group": ""}, "group"),
        ({"metrics": None}, "metrics"),
        ({"metrics": {"metrics": {"avgMetrics": [1]}}}, "avgMetrics"),
        ({"metrics": {"trialRunId": "x", "metrics": {}}}, "trialRunId"),
    ],
)
async def test_bad_metrics_name_the_field(
    world: ApiWorld, change: dict[str, Any], named: str
) -> None:
    trial = world.trial_id(await world.create())
    body = {
        "group": "training",
        "metrics": {"trialRunId": 1, "stepsCompleted": 1, "metrics": {"avgMetrics": {}}},
        **change,
    }
    assert named in await world.refused(400, "POST", f"/api/v1/trials/{trial}/metrics", body)


async def test_a_metric_of_10_mb_is_refused(world: ApiWorld) -> None:
    trial = world.trial_id(await world.create())
    metrics = {"trialRunId": 1, "stepsCompleted": 1, "metrics": {"avgMetrics": {"a": "x" * 10**7}}}
    body = {"group": "training", "metrics": metrics}
    assert "8 MiB" in await world.refused(413, "POST", f"/api/v1/trials/{trial}/metrics", body)


async def test_json_that_could_not_be_read_again_is_refused(world: ApiWorld) -> None:
    trial = world.trial_id(await world.create())
    deep = b'{"metadata": ' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}"
    surrogate = b'{"metadata": {"a": "\\ud800"}}'
    for content in (deep, surrogate, b"{", b'{"metadata": {"a": NaN}}', b"\xff"):
        path = f"/api/v1/runs/{trial}/metadata"
        await world.refused(400, "POST", path, content=content)
    assert (await world.ok("GET", f"/api/v1/runs/{trial}/metadata"))["metadata"] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "metadata",
    [
        {"a.b": 1},
        {"x" * 51: 1},
        {"a": "x" * 5001},
        {"a": [0] * 101},
        {str(n): n for n in range(1001)},
        {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {}}}}}}}}}}},
    ],
)
async def test_run_metadata_has_limits(world: ApiWorld, metadata: dict[str, Any]) -> None:
    path = f"/api/v1/runs/{world.trial_id(await world.create())}/metadata"
    assert "metadata" in await world.refused(400, "POST", path, {"metadata": metadata})
    fine = {"a": {"b": [1, None, "x"]}}
    assert (await world.ok("POST", path, {"metadata": fine}))["metadata"] == fine
    assert (await world.ok("GET", path))["metadata"] == fine


async def test_checkpoints_are_listed_best_first(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run, trial = await world.run_of(id_), world.trial_id(id_)
    for steps, loss in ((1, 0.5), (2, 0.1), (3, 0.3)):
        await world.report(trial, "validation", steps, loss=loss)
        await world.checkpoint(run, f"c{steps}", steps)
    await world.checkpoint(run, "c4", 4)
    await world.checkpoint(run, "c4", 4)
    url = f"/api/v1/experiments/{id_}/checkpoints"

    async def listed(query: str) -> list[str]:
        return [c["uuid"] for c in (await world.ok("GET", f"{url}?{query}"))["checkpoints"]]

    assert await listed("sortByAttr=SORT_BY_SEARCHER_METRIC") == ["c2", "c3", "c1", "c4"]
    assert await listed("sortByMetric=loss&orderBy=ORDER_BY_DESC") == ["c1", "c3", "c2", "c4"]
    assert await listed("sortByAttr=SORT_BY_BATCH_NUMBER&limit=2") == ["c1", "c2"]
    await world.refused(400, "GET", f"{url}?sortByMetric=loss&sortByAttr=SORT_BY_UUID")
    plain = (await world.ok("GET", f"{url}?omitConfig=true&limit=1"))["checkpoints"][0]["training"]
    assert (plain["experimentConfig"], plain["searcherMetric"]) == (None, 0.5)
    one = (await world.ok("GET", "/api/v1/checkpoints/c2"))["checkpoint"]
    assert one["resources"] == {"a.txt": "5", "dir/": "0"}
    assert one["training"]["searcherMetric"] == 0.1
    assert one["training"]["validationMetrics"]["avgMetrics"] == {"loss": 0.1}
    patch = {"checkpoints": [{"uuid": "c2", "resources": {"resources": {}}}]}
    await world.ok("PATCH", "/api/v1/checkpoints", patch)
    assert await listed("states=STATE_DELETED") == ["c2"]
    best = await world.ok(
        "GET", f"/api/v1/experiments/{id_}/searcher/best_searcher_validation_metric"
    )
    assert best == {"metric": 0.1}


async def test_files_of_checkpoints_need_no_names_in_utf_8(world: ApiWorld) -> None:
    """As Python lists such a folder: `os.fsdecode(b"M\\xfcnchen.txt")`."""
    await world.add_agent()
    id_ = await world.create()
    run = await world.run_of(id_)
    one = {"uuid": "u", "taskId": run.task_id, "metadata": {"steps_completed": 1}}
    names = {"resources": {"M\udcfcnchen.txt": 5, "dir/\\udcfc": 1, "\U0001f600": 2}}
    await world.ok("POST", "/api/v1/checkpoints", {**one, **names})
    shown = (await world.ok("GET", "/api/v1/checkpoints/u"))["checkpoint"]["resources"]
    assert shown == {"M%FCnchen.txt": "5", "dir/\\udcfc": "1", "\U0001f600": "2"}
    patch = {"checkpoints": [{"uuid": "u", "resources": {"resources": {"\udcfc": 1}}}]}
    await world.ok("PATCH", "/api/v1/checkpoints", patch)
    shown = (await world.ok("GET", "/api/v1/checkpoints/u"))["checkpoint"]["resources"]
    assert shown == {"%FC": "1"}
    for half in ("\ud800", "\udc00"):
        body = {**one, "resources": {half: 1}}
        assert (await world.call("POST", "/api/v1/checkpoints", body)).status_code == 400


async def test_a_report_for_a_task_that_does_not_exist(world: ApiWorld) -> None:
    body = {"uuid": "u", "taskId": "no.such", "metadata": {"steps_completed": 1}, "resources": {}}
    await world.refused(404, "POST", "/api/v1/checkpoints", body)


async def test_the_same_storage_has_the_same_id(world: ApiWorld) -> None:
    trial = world.trial_id(await world.create())

    async def start(storage: Any) -> Any:
        body = {"runId": trial, "checkpointStorage": storage}
        return await world.ok("POST", "/api/v1/runs/start", body)

    one = await start({"type": "shared_fs", "host_path": "/a"})
    assert await start({"host_path": "/a", "type": "shared_fs"}) == one
    assert await start({"type": "shared_fs", "host_path": "/b"}) != one
    assert await start(None) == {}


@pytest.mark.slow
async def test_early_exits_and_states(world: ApiWorld) -> None:
    trial = world.trial_id(await world.create())
    url = f"/api/v1/trials/{trial}"
    await world.ok("POST", f"{url}/runner/metadata", {"state": "training"})
    assert (await world.ok("GET", url))["trial"]["runnerState"] == "training"
    await world.refused(400, "POST", f"{url}/early_exit", {"reason": "BORED"})
    for _ in range(2):
        await world.ok("POST", f"{url}/early_exit", {"reason": "EXITED_REASON_INVALID_HP"})


def a_line(task_id: str, log: str, **more: Any) -> dict[str, Any]:
    return {"task_id": task_id, "log": log, "timestamp": "2026-01-01T00:00:01Z", **more}


async def test_logs_are_shipped_filtered_and_read(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run, trial = await world.run_of(id_), world.trial_id(id_)
    container = run.containers[0].container.container_id
    lines = [
        a_line(run.task_id, "one\n", rankId=0, level="LOG_LEVEL_INFO", containerId=container),
        a_line(run.task_id, "two", rank_id=1, stdtype="stderr"),
    ]
    token = world.task_token(run)
    await world.ok("POST", "/api/v1/task/logs", {"logs": lines}, token=token)
    url = f"/api/v1/trials/{trial}/logs"
    one, two = await world.lines(f"{url}?sources=task")
    stamp = "[2026-01-01T00:00:01.000000Z]"
    assert one["message"] == f"{stamp} {container[:8]} [rank=0] || INFO: one\n"
    assert two["message"] == f"{stamp} {container[:8]} [rank=1] || two\n"
    assert (one["trialId"], one["level"], two["level"]) == (
        trial,
        "LOG_LEVEL_INFO",
        "LOG_LEVEL_UNSPECIFIED",
    )
    for query, expected in (
        ("rankIds=1", ["two"]),
        ("levels=LOG_LEVEL_INFO&sources=task", ["one"]),
        ("stdtypes=stderr", ["two"]),
        ("searchText=^t.o&enableRegex=true", ["two"]),
        ("searchText=one&sources=task", ["one"]),
        ("orderBy=ORDER_BY_DESC&limit=1", ["two"]),
        ("timestampAfter=2026-01-01T00:00:01Z", []),
    ):
        assert [row["log"] for row in await world.lines(f"{url}?{query}")] == expected, query
    tail = await world.lines(f"/api/v1/tasks/{run.task_id}/logs?sources=task&limit=1")
    assert (tail[0]["taskId"], tail[0]["log"]) == (run.task_id, "one")
    for query in ("limit=-1", "limit=1&follow=true", "searchText=(&enableRegex=true"):
        await world.refused(400, "GET", f"{url}?{query}")
    for bad in ([], [a_line("a", "x"), a_line("b", "x")]):
        await world.refused(400, "POST", "/api/v1/task/logs", {"logs": bad})
    await world.refused(404, "POST", "/api/v1/task/logs", {"logs": [a_line("no.such", "x")]})


async def test_a_followed_log_ends_with_its_task(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run, trial = await world.run_of(id_), world.trial_id(id_)
    url = f"/api/v1/trials/{trial}/logs?follow=true&sources=user"
    following = asyncio.create_task(world.lines(url))
    for text in ("one", "two"):
        await world.ok("POST", "/api/v1/task/logs", {"logs": [a_line(run.task_id, text)]})
    await world.finish(run)
    assert [row["log"] for row in await following] == ["one", "two"]


async def test_an_error_in_a_stream_that_has_begun_is_its_last_line(world: ApiWorld) -> None:
    trial = world.trial_id(await world.create())
    path = f"/api/v1/trials/{trial}/logs?follow=true&enableRegex=true&searchText=("
    response = await world.call("GET", path)
    assert response.status_code == 200
    (line,) = response.text.splitlines()
    assert json.loads(line)["error"]["httpCode"] == 400
