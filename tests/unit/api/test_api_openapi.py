"""The description of the API: valid, complete, and true (tests/fakes/declared_replies.py checks each answer)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from openapi_spec_validator import validate

from master.api.enums import LogLevel
from master.api.logs.wire import task_log
from master.logs.rows import LogRow
from tests.fakes.api_world import ApiWorld
from tests.fakes.declared_replies import DeclaredReplies


@pytest.fixture
async def document(world: ApiWorld) -> dict[str, Any]:
    found: dict[str, Any] = await world.ok("GET", "/api/v1/openapi.json", token="")
    return found


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


async def test_the_description_is_valid(document: dict[str, Any]) -> None:
    validate(document)


async def test_every_operation_says_what_it_answers(document: dict[str, Any]) -> None:
    silent = [
        name
        for name, operation in operations(document).items()
        for media in operation["responses"]["200"].get("content", {"": {}}).values()
        if not media.get("schema")
    ]
    assert silent == []


async def test_every_reply_but_the_description_names_its_keys(document: dict[str, Any]) -> None:
    """A client generator makes nothing of an object without properties."""
    nameless = set()
    for name, operation in operations(document).items():
        schema = operation["responses"]["200"]["content"].get("application/json", {}).get("schema")
        schema = schema.get("items", schema) if schema is not None else None
        if schema is not None and "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert (schema["type"], "properties" in schema) == ("object", True), name
        elif schema is not None:
            nameless.add(name)
    assert nameless <= {"GET /tasks", "GET /openapi.json", "GET /api/v1/openapi.json"}


async def test_operations_have_names_of_their_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(names) == len(set(names))


async def test_errors_are_described(document: dict[str, Any]) -> None:
    for operation in operations(document).values():
        (media,) = operation["responses"]["default"]["content"].values()
        assert media["schema"] == {"$ref": "#/components/schemas/ErrorReply"}
        assert set(operation["responses"]) == {"200", "default"}


async def test_an_answer_that_differs_is_noticed(world: ApiWorld) -> None:
    """What all other tests rely on."""
    await world.login()
    response = await world.call("GET", "/api/v1/me")
    replies = DeclaredReplies(world.app)
    replies.check(response)
    for wrong in (b'{"user": {}}', b'{"user": null}', response.content[:-1] + b', "more": 1}'):
        response._content = wrong
        with pytest.raises(AssertionError, match="GET /api/v1/me"):
            replies.check(response)


async def test_a_client_generator_finds_all_that_it_needs(document: dict[str, Any]) -> None:
    """Every reference leads somewhere, every parameter has a type and a place, every operation a success."""
    schemas = document["components"]["schemas"]
    for name, operation in operations(document).items():
        assert operation["responses"]["200"]["content"], name
        path = name.partition(" ")[2]
        named = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), name
        for parameter in operation.get("parameters", ()):
            schema = parameter["schema"]
            assert schema.keys() & {"type", "anyOf", "$ref", "enum", "const"}, (name, schema)
    for reference in references(document):
        prefix, _, target = reference.rpartition("/")
        assert (prefix, target in schemas) == ("#/components/schemas", True), reference


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from references(child)


def test_a_log_line_of_an_unknown_level_is_shown() -> None:
    """Levels come from agents; a stream must not end at one that it cannot name."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    row = LogRow(id=1, task_id="1.x", log="hello", timestamp=moment, level="LOUD")
    assert task_log(row)["level"] is LogLevel.UNSPECIFIED
