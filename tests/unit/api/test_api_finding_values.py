"""What there is to filter and sort by, over REST."""

from __future__ import annotations

from typing import Any

from tests.fakes.api_world import ASHA, SINGLE, ApiWorld

PROJECT = "/api/v1/projects/1"


async def columns(world: ApiWorld, table: str) -> dict[str, dict[str, Any]]:
    reply = await world.ok("GET", f"{PROJECT}/columns?tableType=TABLE_TYPE_{table}")
    found = {column["column"]: column for column in reply["columns"]}
    assert len(found) == len(reply["columns"])
    return found


async def test_columns_ranges_metadata_and_labels(world: ApiWorld) -> None:
    await world.add_agent(slots=4)
    nested = SINGLE.replace("{lr: 0.5}", "{lr: 0.5, net: {name: big, sizes: [1, 2]}}")
    first = await world.create(nested)
    second = await world.create(ASHA.replace("name: search", "name: s\nlabels: [z, first]"))
    await world.run_of(first)
    trial, other = world.trial_id(first), world.trial_id(second)
    await world.report(trial, "validation", 3, loss=0.5, acc="good")
    await world.report(trial, "validation", 4, loss=1.5, acc="bad")
    await world.run_of(second)
    await world.report(other, "validation", 3, loss=0.25, epochs=1)
    await world.report(other, "own", 3, **{"a.b": 7})
    metadata = f"/api/v1/runs/{trial}/metadata"
    values = {"a": {"b": ["x", "y", 1], "c": "one"}, "n": 1.5}
    await world.ok("POST", metadata, {"metadata": values})
    await world.ok("POST", f"/api/v1/runs/{other}/metadata", {"metadata": {"a": {"b": "x"}}})

    found = await columns(world, "EXPERIMENT")
    assert next(iter(found.values())) == {
        "column": "id",
        "location": "LOCATION_TYPE_EXPERIMENT",
        "type": "COLUMN_TYPE_NUMBER",
        "displayName": "ID",
    }
    kinds = {
        name: (
            column["location"].removeprefix("LOCATION_TYPE_"),
            column["type"].removeprefix("COLUMN_TYPE_"),
        )
        for name, column in found.items()
    }
    assert kinds["validation.loss.min"] == ("VALIDATIONS", "NUMBER")
    assert kinds["validation.acc.last"] == ("VALIDATIONS", "TEXT")
    assert kinds["own.a.b.mean"] == ("CUSTOM_METRIC", "NUMBER")
    assert kinds["hp.lr"] == ("HYPERPARAMETERS", "NUMBER")
    assert kinds["hp.net.name"] == ("HYPERPARAMETERS", "TEXT")
    assert kinds["hp.net.sizes"] == ("HYPERPARAMETERS", "ARRAY")
    assert "hp.net" not in kinds
    assert not any(name.startswith("metadata.") for name in kinds)

    runs = await columns(world, "RUN")
    assert runs["id"]["displayName"] == "Global Run ID"
    assert runs["id"]["location"] == "LOCATION_TYPE_RUN"
    assert runs["hp.lr"]["location"] == "LOCATION_TYPE_RUN_HYPERPARAMETERS"
    assert runs["metadata.a.b"]["type"] == "COLUMN_TYPE_UNSPECIFIED"  # a list, and a text
    assert runs["metadata.a.c"]["type"] == "COLUMN_TYPE_TEXT"
    assert runs["metadata.n"]["type"] == "COLUMN_TYPE_NUMBER"

    ranges = (await world.ok("GET", f"{PROJECT}/experiments/metric-ranges"))["ranges"]
    by_name = {one["metricsName"]: (one["min"], one["max"]) for one in ranges}
    assert by_name["searcherMetricsVal"] == (0.25, 0.5)
    assert by_name["validation.loss.max"] == (0.25, 1.5)
    assert by_name["validation.loss.mean"] == (0.25, 1.0)
    assert by_name["own.a.b.last"] == (7, 7)
    assert not any(name.startswith("validation.acc") for name in by_name)

    assert (await world.ok("GET", f"{PROJECT}/metadata/a.b"))["values"] == ["x", "y"]
    assert (await world.ok("GET", f"{PROJECT}/metadata/n"))["values"] == []
    assert (await world.ok("GET", "/api/v1/experiment/labels"))["labels"] == ["first", "z"]
    labels = await world.ok("GET", "/api/v1/experiment/labels?projectId=1")
    assert labels["labels"] == ["first", "z"]


async def test_an_empty_project_has_the_fixed_columns(world: ApiWorld) -> None:
    found = await columns(world, "UNSPECIFIED")
    assert "name" in found
    assert not any("." in name for name in found)
    assert (await world.ok("GET", f"{PROJECT}/experiments/metric-ranges"))["ranges"] == []
    for path in ("columns", "experiments/metric-ranges", "metadata/a"):
        assert "project" in await world.refused(404, "GET", f"/api/v1/projects/99/{path}")
        await world.refused(401, "GET", f"{PROJECT}/{path}", token="nobody")
    await world.refused(404, "GET", "/api/v1/experiment/labels?projectId=99")
    long = ".".join("a" * 65)
    assert "parts" in await world.refused(400, "GET", f"{PROJECT}/metadata/{long}")
    await world.refused(400, "GET", f"{PROJECT}/columns?tableType=TABLE_TYPE_ROW")
