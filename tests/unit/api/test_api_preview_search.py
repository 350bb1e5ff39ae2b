"""What a search would train, asked before it is submitted."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.fakes.api_world import ASHA, SINGLE, ApiWorld

URL = "/api/v1/preview-hp-search"
SEARCHER = {"name": "random", "metric": "loss", "max_trials": 3}


async def preview(world: ApiWorld, config: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = (await world.ok("POST", URL, {"config": config, "seed": 7}))["summary"]
    return answer


async def test_trials_are_counted_by_length(world: ApiWorld) -> None:
    found = await preview(world, yaml.safe_load(ASHA))
    assert found["trials"] == [
        {"count": 2, "unit": {"name": "epochs", "value": 4, "maxLength": False}},
        {"count": 2, "unit": {"name": "epochs", "value": 8, "maxLength": False}},
    ]
    found = await preview(world, yaml.safe_load(SINGLE))
    assert found["trials"] == [
        {"count": 1, "unit": {"name": None, "value": None, "maxLength": True}}
    ]
    assert (await world.ok("GET", "/api/v1/experiments"))["experiments"] == []


async def test_only_the_search_must_be_complete(world: ApiWorld) -> None:
    found = await preview(world, {"searcher": SEARCHER})
    assert found["config"].items() >= {**SEARCHER, "max_concurrent_trials": 16}.items()
    assert [row["count"] for row in found["trials"]] == [3]


@pytest.mark.parametrize(
    ("config", "messages"),
    [
        ({}, ["searcher"]),
        (
            {"searcher": {**SEARCHER, "max_trials": 0}, "max_restarts": -1},
            ["searcher.max_trials", "max_restarts"],
        ),
        (
            {"searcher": {"name": "custom", "metric": "loss"}},
            ["'custom' searcher has been removed"],
        ),
        (
            {
                "searcher": {"name": "grid", "metric": "loss"},
                "hyperparameters": {"a": {"type": "double", "minval": 0, "maxval": 1}},
            },
            ["hyperparameters.a: grid search is in use but count was not provided"],
        ),
    ],
)
async def test_all_problems_are_named(
    world: ApiWorld, config: dict[str, Any], messages: list[str]
) -> None:
    refused = await world.refused(400, "POST", URL, {"config": config})
    assert all(message in refused for message in messages), refused


async def test_it_needs_a_login(world: ApiWorld) -> None:
    await world.refused(401, "POST", URL, {"config": {"searcher": SEARCHER}}, token="")
