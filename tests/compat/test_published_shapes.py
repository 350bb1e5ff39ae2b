"""Replies have the shapes that the published client reads: required fields, and enumerations with all members."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from master.api.application import ROUTES
from master.api.openapi import DescribedApp

PUBLISHED = Path(__file__).parents[2] / ".compat" / "bin" / "python"

pytestmark = pytest.mark.skipif(
    not PUBLISHED.exists(), reason="the published client is not installed: run make test"
)

RENAMED = {
    "MasterReply": "GetMasterResponse",
    "TaskLog": "TaskLogsResponse",
    "TrialLog": "TrialLogsResponse",
    "CreatedExperimentReply": "CreateExperimentResponse",
    "GetExperimentReply": "GetExperimentResponse",
    "LaunchedCommandReply": "LaunchCommandResponse",
}
LEFT_OUT = {"Job": {"isPreemptible", "requestedSlots", "allocatedSlots"}}
"""In replies of our own, on a job that asks for nothing; the published lists have none of those."""


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    script = Path(__file__).with_name("published_shapes.py")
    found: dict[str, Any] = json.loads(subprocess.check_output([PUBLISHED, script]))
    return found


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    app = DescribedApp(title="", version="", openapi_url=None, docs_url=None, redoc_url=None)
    app.router.routes.extend(ROUTES)
    return app.openapi()


@pytest.fixture(scope="module")
def schemas(description: dict[str, Any]) -> dict[str, Any]:
    """Of replies, by their names."""
    known, found = description["components"]["schemas"], {}
    waiting = [op["responses"] for path in description["paths"].values() for op in path.values()]
    while waiting:
        for name in set(re.findall(r"#/components/schemas/(\w+)", json.dumps(waiting.pop()))):
            if name not in found:
                found[name] = known[name]
                waiting.append(known[name])
    return found


def both(published: dict[str, Any], schemas: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Name -> the schema of ours and the fields of the published class, for shapes that both have."""
    classes = {re.sub(r"^[a-z]*v1", "", name): c for name, c in published["classes"].items()}
    named = {name: classes.get(RENAMED.get(name, name)) for name in schemas}
    return {name: (schemas[name], fields) for name, fields in named.items() if fields is not None}


def test_enumerations_have_the_published_members(
    published: dict[str, Any], schemas: dict[str, Any]
) -> None:
    compared = 0
    for name, (schema, fields) in both(published, schemas).items():
        for field, (_, enumeration) in fields.items():
            if enumeration is None or field not in schema["properties"]:
                continue
            reference = re.search(r"schemas/(\w+)", json.dumps(schema["properties"][field]))
            assert reference, f"{name}.{field} is no enumeration"
            members = schemas[reference[1]].get("enum")
            assert sorted(members or ()) == published["enums"][enumeration], f"{name}.{field}"
            compared += 1
    assert compared >= 20


def test_required_fields_are_always_there(
    published: dict[str, Any], schemas: dict[str, Any]
) -> None:
    for name, (schema, fields) in both(published, schemas).items():
        required = {field for field, (is_required, _) in fields.items() if is_required}
        assert required - LEFT_OUT.get(name, set()) <= set(schema.get("required", ())), name
