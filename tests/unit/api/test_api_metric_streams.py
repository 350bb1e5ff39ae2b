"""Streams of metrics over REST: what there is, then what is new, until the experiment has ended."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.fakes.api_world import ASHA, ApiWorld

LOSS = "metricName=loss&group=validation"


class Followed:
    """A stream, read while it goes on: httpx's transport would only give the whole of it."""

    def __init__(self, world: ApiWorld, path: str) -> None:
        self._text = b""
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read(world, path))

    async def first(self) -> None:
        """Returns when something has come."""
        await self._more.wait()

    async def to_the_end(self) -> list[Any]:
        await self._reading
        return [json.loads(line)["result"] for line in self._text.splitlines()]

    async def _read(self, world: ApiWorld, path: str) -> None:
        path, _, query = path.partition("?")
        headers = [(b"host", b"master"), (b"authorization", f"Bearer {world.token}".encode())]
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("master", 80),
        }
        requests = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            return next(requests, None) or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if body := message.get("body"):
                self._text += body
                self._more.set()

        await world.app(scope, receive, send)


async def test_metrics_of_a_search_are_streamed(world: ApiWorld) -> None:
    await world.add_agent(slots=4)
    id_ = await world.create(ASHA)
    runs = [await world.run_of(id_, index) for index in range(4)]
    trials = [world.trial_id(id_, index) for index in range(4)]
    for trial, loss in zip(trials, (3.0, 1.0, 2.0), strict=False):
        await world.report(trial, "training", 5, x=1)
        await world.report(trial, "validation", 10, loss=loss, epochs=0.1)
    await world.report(trials[0], "validation", 12, loss=9.0, epochs=0.2)
    base = f"/api/v1/experiments/{id_}/metrics-stream"
    names = Followed(world, f"/api/v1/experiments/metrics-stream/metric-names?ids={id_}")
    batches = Followed(world, f"{base}/batches?{LOSS}")
    sample = Followed(world, f"{base}/trials-sample?{LOSS}&maxTrials=2")
    shot = Followed(world, f"{base}/trials-snapshot?{LOSS}&batchesProcessed=11&batchesMargin=1")
    streams = (names, batches, sample, shot)
    for stream in streams:
        await stream.first()
    await world.report(trials[3], "validation", 11, loss=0.5, epochs=0.1)
    await world.report(trials[1], "own", 11, y=1)
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    for run in runs:
        for state in run.containers:
            world.agents[state.container.agent_id].exit(state.container.container_id, 137)
    of_names, of_batches, of_sample, of_shot = [await stream.to_the_end() for stream in streams]

    assert of_names[0]["searcherMetrics"] == ["loss"]
    assert of_names[0]["trainingMetrics"] == ["x"]
    assert of_names[0]["validationMetrics"] == ["epochs", "loss"]
    assert of_names[1]["metricNames"] == [{"group": "own", "name": "y"}]
    assert of_names[1]["searcherMetrics"] == []
    assert [item["batches"] for item in of_batches] == [[10, 12], [11]]

    first, second = of_sample
    assert first["promotedTrials"] == [trials[1], trials[2]]
    assert first["demotedTrials"] == []
    assert [trial["data"][0]["values"] for trial in first["trials"]] == [{"loss": 1}, {"loss": 2}]
    assert second["promotedTrials"] == [trials[3]]
    assert second["demotedTrials"] == [trials[2]]
    assert [trial["trialId"] for trial in second["trials"]] == [trials[3]]

    found = [
        {t["trialId"]: (t["batchesProcessed"], t["metric"]) for t in o["trials"]} for o in of_shot
    ]
    nearest = {trials[0]: (10, 3.0), trials[1]: (10, 1.0), trials[2]: (10, 2.0)}
    assert found == [nearest, {trials[3]: (11, 0.5)}]


async def test_bad_streams_are_refused(world: ApiWorld) -> None:
    id_ = await world.create(activate=False)
    base = f"/api/v1/experiments/{id_}/metrics-stream"
    for path, word in (
        (f"{base}/batches?group=validation", "metricName"),
        (f"{base}/batches?metricName=loss", "group"),
        (f"{base}/batches?metricName=loss&metricType=METRIC_TYPE_PROFILING", "group"),
        (f"{base}/trials-sample?metricName=loss&metricType=METRIC_TYPE_NONE", "metricType"),
        (f"{base}/trials-snapshot?{LOSS}&batchesMargin=101", "batchesMargin"),
        ("/api/v1/experiments/metrics-stream/metric-names", "ids"),
    ):
        assert word in await world.refused(400, "GET", path)
    for path in ("99/metrics-stream/batches", "99/metrics-stream/trials-sample"):
        await world.refused(404, "GET", f"/api/v1/experiments/{path}?{LOSS}")
    await world.refused(404, "GET", "/api/v1/experiments/metrics-stream/metric-names?ids=99")
