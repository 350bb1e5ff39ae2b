"""One request must not stop everybody: what is refused, and who waits for whom."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from master.api.http.json_text import MAX_VALUES
from master.experiments.submission.admission import Admission
from master.logs.regex_filter import RegexFilter
from tests.fakes.api_world import SINGLE, ApiWorld, api_world

DOUBLING = "\n".join(
    (
        "a0: &a0 {x: 1, y: 2}",
        *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 28)),
    )
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    async with api_world(tmp_path) as opened:
        await opened.login()
        yield opened


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (f"{SINGLE}\ndata:\n  " + DOUBLING.replace("\n", "\n  "), None),
        (SINGLE.replace("0.5", "0x" + "f" * 5000), "the number does not fit 64 bits"),
        (SINGLE + "x: " + "[" * 1000, "nested more than 100 deep"),
        (SINGLE + "data: &a [*a]", "undefined alias"),
        (SINGLE + "data: [" + "1," * 1_000_000 + "]", "the maximum is 1048576"),
        (SINGLE + 'description: "\\0"', "must not contain NUL characters"),
        (SINGLE + "log_policies: [{name: n, pattern: '(?=x)'}]", "look-ahead and look-behind"),
    ],
)
async def test_a_nasty_configuration_is_answered(
    world: ApiWorld, config: str, problem: str | None
) -> None:
    if problem is None:
        assert await world.create(config)
    else:
        body = {"config": config, "modelDefinition": []}
        assert problem in await world.refused(400, "POST", "/api/v1/experiments", body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/commands", {"config": {"data": [[]] * (MAX_VALUES // 2 + 1)}}),
        ("/api/v1/task/logs", {"logs": [{}] * (MAX_VALUES // 2 + 1)}),
    ],
)
async def test_a_body_of_very_many_values_is_refused(world: ApiWorld, path: str, body: Any) -> None:
    assert f"more than {MAX_VALUES} JSON values" in await world.refused(413, "POST", path, body)


async def test_commas_of_text_are_no_values(world: ApiWorld) -> None:
    config = {
        "entrypoint": ["true"],
        "environment": {"environment_variables": ["A=" + "," * 600_000]},
    }
    await world.add_agent()
    assert await world.ok("POST", "/api/v1/commands", {"config": config})


async def test_nobody_waits_for_a_configuration_but_who_sends_one(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    really = Admission.check

    def check(self: Admission, *args: Any, **options: Any) -> Any:
        goes_on.wait(60)
        return really(self, *args, **options)

    monkeypatch.setattr(Admission, "check", check)
    waiting = [asyncio.create_task(world.create()) for _ in range(40)]
    try:
        for _ in range(3):
            await world.login()
        assert (await world.ok("GET", "/api/v1/experiments"))["experiments"] == []
    finally:
        goes_on.set()
    assert len(set(await asyncio.gather(*waiting))) == 40


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(?<!x)y", "look-ahead and look-behind are not supported"),
        (r"(a)\1", "back-references are not supported"),
        ("(", "is no regular expression: missing )"),
        ("x" * 2000, "the maximum is 1000"),
    ],
)
async def test_an_unsupported_log_search_is_refused(
    world: ApiWorld, pattern: str, problem: str
) -> None:
    await world.add_agent()
    run = await world.run_of(await world.create())
    query = {"searchText": pattern, "enableRegex": "true"}
    path = f"/api/v1/tasks/{run.task_id}/logs"
    assert problem in await world.refused(400, "GET", path, params=query)


async def test_log_searches_take_cpu_time_of_who_asks(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has used up his waits, and others do not."""
    monkeypatch.setattr("master.logs.regex_filter.USER_CPU_PER_S", 0.001)  # of 0.2
    world.services.logs._regex = RegexFilter(user_cpu_s=0.05)
    await world.add_agent()
    run = await world.run_of(await world.create())
    line = {"task_id": run.task_id, "log": "aab" * 10, "timestamp": "2026-01-01T00:00:00Z"}
    await world.ok("POST", "/api/v1/task/logs", {"logs": [line] * 1_000})
    path = f"/api/v1/tasks/{run.task_id}/logs?enableRegex=true&limit=1&searchText="
    (found,) = await world.lines(f"{path}^a%2Bb")
    assert found["log"] == line["log"]
    slow = "(a?){0,50}(a|aa|aaa)*" * 20 + "c"
    for pattern in (slow, "^a%2Bb"):
        refusal = await world.refused(429, "GET", path + pattern)
        assert "your searches have used up 0.05 seconds of CPU time" in refusal
    await world.login("determined")
    assert [row["log"] for row in await world.lines(f"{path}^a%2Bb")] == [line["log"]]


async def test_a_configuration_is_still_json_when_it_is_shown(world: ApiWorld) -> None:
    id_ = await world.create(SINGLE + 'data: {big: 18446744073709551615, text: "\\U0010ffff"}')
    shown = await world.ok("GET", f"/api/v1/experiments/{id_}")
    assert shown["experiment"]["config"]["data"] == json.loads(
        '{"big": 18446744073709551615, "text": "\\udbff\\udfff"}'
    )
