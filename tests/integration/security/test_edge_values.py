"""Values at the edge of what texts, numbers, dates and databases can hold: refused or answered, never a failure."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute

from tests.fakes.api_world import SINGLE
from tests.fakes.populated_world import COMMAND, TEMPLATE, Populated, populated_world, routes
from tests.integration.security.test_route_walk import BODIES, QUERIES

IN_URLS = (
    *("%00", "a%00b", "%ED%A0%80", "%FF", "%20", "..", "%2F", "%F0%9F%A6%80", "%27%22%3B", "%5C"),
    *("-1", "0", "2147483647", "2147483648", "-2147483649", "9223372036854775808", "1" * 40),
    *("1e400", "nan", "inf", "-0", "1_0", "0x10", quote("٣"), "x" * 3000),
    *("0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00", "10000-01-01T00:00:00Z"),
    *("0000-01-01", "-1000000000000000000", "253402300800", "1e308", "2026-02-30T00:00:00Z"),
)
IN_URLS_AGAIN = (
    *("a%00b", "%ED%A0%80", "x" * 3000, "2147483647", "9223372036854775808"),
    *("0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"),
)
"""Enough where a parameter of the same name and the same checks has been asked all: what its handler may see."""
OF_DATABASES = (
    *("a%00b", "%ED%A0%80", "%FF", "2147483648", "9223372036854775808", "1" * 40, "1e400", "nan"),
    *("0001-01-01T00:00:00%2B14:00", "10000-01-01T00:00:00Z"),
)
"""Those of which a database may think otherwise than the other: enough where the other one has been asked all."""
OF_DATABASES_AGAIN = ("a%00b", "%ED%A0%80", "9223372036854775808", "0001-01-01T00:00:00%2B14:00")
IN_BODIES: tuple[Any, ...] = (
    *("\0", "a\0b", "", " ", "x" * 70_000, "'\";\\", "\U0001f980", "\u202e"),
    *(-1, 0, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, 2**64, -(2**63), 1e308, 0.1, True),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "10000-01-01T00:00:00Z"),
    *([], {}, [None], ["\0"], [{}], {"": ""}, {"a\0b": 1}, {"a": {"b": "\0"}}, [2**63], ["", ""]),
)
IN_BODIES_AGAIN: tuple[Any, ...] = (
    *("a\0b", "x" * 70_000, -1, 2**31, 2**63, "0001-01-01T00:00:00+14:00", [], {}, ["\0"]),
    *({"a\0b": 1}, [2**63]),
)
"""Enough where a key of the same name, with the same kind of value, has been given all."""
IN_BODIES_OF_DATABASES: tuple[Any, ...] = (
    *("\0", "a\0b", "\U0001f980", 2**31, -(2**31) - 1, 2**63, 2**64, -(2**63), 1e308),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "10000-01-01T00:00:00Z"),
    *(["\0"], {"a\0b": 1}, {"a": {"b": "\0"}}, [2**63]),
)
IN_BODIES_OF_DATABASES_AGAIN: tuple[Any, ...] = ("a\0b", 2**31, 2**63, {"a\0b": 1}, [2**63])
LIMIT_S = 20
"""What is not answered by then waits for something that an edge made it wait for."""
RAW_BODIES = (
    *(b"\xff\xfe", b"nul", b"[]", b"1", b'"x"', b"null", b'{"a": NaN}', b'{"a": 1e999}', b"{"),
    *(
        b'{"\\ud800": 1}',
        b'{"name": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    ),
)
RAW_BODIES_OF_DATABASES = (b'{"\\ud800": 1}', b'{"name": "\\ud800"}')


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def db_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite://"
    return str(request.getfixturevalue("postgres_tables_url"))


@pytest.fixture
async def there(db_url: str, tmp_path: Path) -> AsyncIterator[Populated]:
    async with populated_world(tmp_path, db_url=db_url) as there:
        yield there


class Answers:
    def __init__(self, there: Populated) -> None:
        self.there = there
        self.seen = 0
        self.failed: list[str] = []

    async def call(self, method: str, url: str, body: Any = None, **options: Any) -> int:
        said = f"{method} {url[:200]} {str(body or options)[:200]}"
        self.seen += 1
        try:
            async with asyncio.timeout(LIMIT_S):
                response = await self.there.world.call(
                    method, url, body, token=self.there.admin, **options
                )
        except Exception as error:  # noqa: BLE001  (the transport hands on what the application raised)
            self.failed.append(f"{said}: {error!r}"[:600])
            return 500
        status: int = response.status_code
        if status >= 500 and status != 501:
            self.failed.append(f"{said}: {status}")
        return status


class Values:
    """Which values something is given: all of them where nothing like it has been met."""

    def __init__(self, all_: Sequence[Any], again: Sequence[Any]) -> None:
        self._all, self._again = all_, again
        self._met: set[Any] = set()

    def for_(self, kind: Any) -> Sequence[Any]:
        values = self._again if kind in self._met else self._all
        self._met.add(kind)
        return values


def urls(there: Populated, route: APIRoute, values: Values) -> Iterator[str]:
    """The path with each of its parameters at each edge, the others as they are."""
    segments, plain = route.path.split("/"), there.url(route.path).split("/")
    checks = {field.alias: _checks(field.field_info) for field in route.dependant.path_params}
    for at, segment in enumerate(segments):
        if segment.startswith("{"):
            name = segment.strip("{}")
            for value in values.for_((name, checks.get(name.removesuffix(":path")))):
                yield "/".join([*plain[:at], value, *plain[at + 1 :]])


def _checks(field: Any) -> str:
    """What the value of a parameter must be."""
    return f"{field.annotation} {field.metadata}"


def query_parameters(route: APIRoute) -> Iterator[tuple[str, str]]:
    """Names, and what their values must be."""
    for parameter in route.dependant.query_params:
        fields = getattr(parameter.field_info.annotation, "model_fields", None)
        names = fields.items() if fields else [(parameter.alias, parameter.field_info)]
        for name, info in names:
            yield info.alias or name, _checks(info)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_paths_and_queries(there: Populated, db_url: str) -> None:
    answers = Answers(there)
    values = Values(IN_URLS, IN_URLS_AGAIN)
    if not db_url.startswith("sqlite"):
        values = Values(OF_DATABASES, OF_DATABASES_AGAIN)
    for method, route in routes():
        if "logout" in route.path:
            continue
        for url in urls(there, route, values):
            await answers.call(
                method,
                url
                + QUERIES.get(route.path, "").format(
                    trial=there.trial, experiment=there.experiment
                ),
            )
        if method != "GET":
            continue
        base = there.url(route.path) + QUERIES.get(route.path, "?").format(
            trial=there.trial, experiment=there.experiment
        )
        for name, checks in query_parameters(route):
            if name == "timeoutSeconds":
                continue  # a long poll waits as long as it is told to
            for value in values.for_((name, checks)):
                await answers.call(method, f"{base}&{name}={value}")
    assert answers.failed == []
    assert answers.seen > 2_000


def places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand in a body."""
    if path:
        yield path
    if isinstance(body, dict | list):
        for key in body if isinstance(body, dict) else range(len(body)):
            yield from places(body[key], (*path, key))


def at(body: Any, path: tuple[Any, ...]) -> Any:
    return reduce(lambda inner, key: inner[key], path, body)


def with_value(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(body)
    at(changed, path[:-1])[path[-1]] = value
    return changed


FULL: dict[str, dict[str, Any]] = {
    "POST /api/v1/experiments": {
        "config": SINGLE,
        "activate": False,
        "modelDefinition": [{"path": "a", "type": 48, "content": "", "mtime": "1", "mode": 420}],
        "parentId": 1,
        "projectId": 1,
        "validateOnly": False,
    },
    "POST /api/v1/commands": {
        "config": {
            "description": "d",
            "entrypoint": ["true"],
            "work_dir": "/tmp",
            "resources": {"slots": 0, "priority": 5, "shm_size": 1},
            "environment": {
                "environment_variables": ["A=1"],
                "registry_auth": {"password": "p"},
                "ports": {"a": 1},
            },
            "bind_mounts": [{"host_path": "/a", "container_path": "b"}],
        },
        "files": [{"path": "a", "type": 48, "content": "", "mtime": "1", "mode": 420}],
        "workspaceId": 1,
        "preview": False,
    },
    "PUT /api/v1/templates/{template_name:path}": {
        "name": "t",
        "config": {"labels": ["a"], "resources": {"slots": 1}, "data": {"a": 1}},
        "workspaceId": 1,
    },
    "POST /api/v1/models": {
        "name": "m",
        "description": "d",
        "labels": ["a"],
        "metadata": {"a": 1},
        "notes": "n",
        "workspaceId": 1,
        "workspaceName": "Uncategorized",
    },
    "POST /api/v1/models/{model_name}/versions": {
        "checkpointUuid": "ckpt-1",
        "name": "n",
        "comment": "c",
        "labels": ["a"],
        "metadata": {"a": 1},
        "notes": "n",
    },
    "PATCH /api/v1/template/rename": {"oldName": TEMPLATE, "newName": TEMPLATE},
    "PATCH /api/v1/experiments/{experiment_id}": {
        "name": "n",
        "description": "d",
        "notes": "n",
        "labels": ["l"],
        "resources": {"maxSlots": 1, "weight": 1.0, "priority": 2},
    },
    "POST /api/v1/trials/{trial_id}/metrics": {
        "group": "g",
        "metrics": {
            "trialId": 1,
            "trialRunId": 1,
            "stepsCompleted": 1,
            "reportTime": "2026-01-01T00:00:00Z",
            "metrics": {"avgMetrics": {"a": 1}, "batchMetrics": [{"a": 1}]},
        },
    },
    "POST /api/v1/checkpoints": {
        "uuid": "u",
        "taskId": "t",
        "allocationId": "t.1",
        "state": "STATE_COMPLETED",
        "resources": {"a": "1"},
        "metadata": {"steps_completed": 1},
        "reportTime": "2026-01-01T00:00:00Z",
        "storageId": 1,
    },
    "POST /api/v1/trials/profiler/metrics": {
        "batches": [
            {
                "values": [0.5],
                "batches": [1],
                "timestamps": ["2026-01-01T00:00:00Z"],
                "labels": {
                    "trialId": 1,
                    "name": "gpu_util",
                    "agentId": "a",
                    "gpuUuid": "g",
                    "metricType": "PROFILER_METRIC_TYPE_SYSTEM",
                },
            }
        ]
    },
    "POST /api/v1/runs/start": {"runId": 1, "checkpointStorage": {"type": "s3", "bucket": "b"}},
    "POST /api/v1/task/logs": {
        "logs": [
            {
                "taskId": "t",
                "containerId": None,
                "rankId": 1,
                "timestamp": "2026-01-01T00:00:00Z",
                "level": "LOG_LEVEL_INFO",
                "log": "x",
                "stdtype": "stdout",
            }
        ]
    },
    "POST /api/v1/job-queues": {
        "updates": [
            {"jobId": "j", "priority": 1, "weight": 1.0, "resourcePool": "p", "aheadOf": "a"}
        ]
    },
    "POST /api/v1/users": {
        "user": {"username": "u", "displayName": "d", "admin": False, "active": True},
        "password": "Long-enough-1",
        "isHashed": False,
    },
    "PATCH /api/v1/users/{user_id}": {"displayName": "d", "admin": False, "active": True},
    "PATCH /api/v1/users": {"activate": True, "userIds": [2], "filters": {"name": "n"}},
    "DELETE /api/v1/windlass/views": {"list": "runs", "name": "n"},
    "PUT /api/v1/windlass/views": {
        "list": "runs",
        "name": "n",
        "filter": "state = RUNNING",
        "sort": "-started",
        "columns": ["hp.lr"],
        "archived": False,
        "projectId": 1,
    },
    "POST /api/v1/users/setting": {"settings": [{"key": "k", "storagePath": "p", "value": "v"}]},
    "POST /api/v1/users/activity": {
        "activityType": "ACTIVITY_TYPE_GET",
        "entityType": "ENTITY_TYPE_PROJECT",
        "entityId": 1,
    },
    "POST /api/v1/tokens": {"userId": 2, "lifespan": "1h", "description": "d"},
    "PATCH /api/v1/tokens/{access_token_id}": {"description": "d", "setRevoked": False},
    "POST /api/v1/allocations/{allocation_id}/acceleratorData": {
        "acceleratorData": {"nodeName": "n", "acceleratorType": "t", "acceleratorUuids": ["u"]}
    },
    "POST /api/v1/allocations/{allocation_id}/all_gather": {
        "requestUuid": "r",
        "numPeers": 1,
        "data": {"a": 1},
    },
}


def bodies(there: Populated, name: str, values: Values) -> Iterator[Any]:
    """What the route takes, with each of its values at each edge."""
    plain = BODIES[name](there) if name in BODIES else None
    real = {"taskId": there.run.task_id, "runId": there.trial, "jobId": there.job}
    for body in (FULL.get(name), plain):
        if body is None:
            continue
        text = json.dumps(body)
        for key, value in real.items():
            text = text.replace(f'"{key}": "{key[0]}"', f'"{key}": {json.dumps(value)}')
        body = json.loads(text.replace('"t.1"', json.dumps(there.run.id)))
        for place in places(body):
            if place[-1] == "numPeers":
                continue  # a gathering waits for as many peers as it is told
            keys = tuple(key for key in place if isinstance(key, str))
            for value in values.for_((keys[-1:], type(at(body, place)))):
                yield with_value(body, place, value)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_bodies(there: Populated, db_url: str) -> None:
    answers = Answers(there)
    values, raw_bodies = Values(IN_BODIES, IN_BODIES_AGAIN), RAW_BODIES
    if not db_url.startswith("sqlite"):
        values = Values(IN_BODIES_OF_DATABASES, IN_BODIES_OF_DATABASES_AGAIN)
        raw_bodies = RAW_BODIES_OF_DATABASES
    # Wrong logins wait, on purpose.
    writing = [(m, r) for m, r in routes() if m != "GET" and "auth" not in r.path]
    # What ends work comes last: the routes before it need some.
    writing.sort(key=lambda pair: "kill" in pair[1].path or "cancel" in pair[1].path)
    for method, route in writing:
        name, url = f"{method} {route.path}", there.url(route.path)
        for body in bodies(there, name, values):
            await answers.call(method, url, body)
        for raw in raw_bodies:
            await answers.call(method, url, content=raw)
    assert answers.failed == []
    assert answers.seen > 1_500


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("name",), "a\0b"),
        (("name",), "x" * 1001),
        (("description",), "x" * 70_000),
        (("labels", 0), "x" * 201),
        (("entrypoint",), "echo \0"),
        (("bind_mounts", 0, "host_path"), "/a\0b"),
        (("environment", "environment_variables", "cpu", 0), "A=\0"),
        (("data", "deep", 0), "\0"),
        (("name",), "\ud800"),
        (("data", "deep", 0), "a\udfff"),
        (("checkpoint_storage", "host_path"), "\0"),
    ],
    ids=str,
)
async def test_a_configuration_is_refused_by_its_field(
    there: Populated, path: tuple[Any, ...], value: str
) -> None:
    document: dict[str, Any] = {
        "name": "n",
        "description": "d",
        "labels": ["l"],
        "entrypoint": "true",
        "searcher": {"name": "single", "metric": "loss"},
        "bind_mounts": [{"host_path": "/a", "container_path": "/b"}],
        "environment": {"environment_variables": {"cpu": ["A=1"]}},
        "data": {"deep": ["x"]},
        "checkpoint_storage": {"type": "shared_fs", "host_path": "/x"},
    }
    config = json.dumps(with_value(document, path, value))
    message = await there.world.refused(
        400, "POST", "/api/v1/experiments", {"config": config}, token=there.admin
    )
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    assert f"<config>{where}: " in message
    if path[0] in ("description", "entrypoint", "environment", "bind_mounts"):
        own = {"entrypoint": ["true"], "description": "d", **_command_part(document, path, value)}
        message = await there.world.refused(
            400, "POST", "/api/v1/commands", {"config": own}, token=there.admin
        )
        assert f"<config>.{path[0]}" in message


def _command_part(document: dict[str, Any], path: tuple[Any, ...], value: str) -> dict[str, Any]:
    return {path[0]: with_value(document, path, value)[path[0]]}


@pytest.mark.parametrize(
    ("url", "field"),
    [
        (
            "/api/v1/trials/{trial}/logs?timestampAfter=0001-01-01T00:00:00%2B14:00",
            "timestampAfter",
        ),
        (
            "/api/v1/trials/{trial}/logs?timestampBefore=9999-12-31T23:59:59-14:00",
            "timestampBefore",
        ),
        ("/api/v1/trials/{trial}/logs?limit=2147483648", "limit"),
        ("/api/v1/experiments?limit=2147483648", "limit"),
        ("/api/v1/experiments?offset=-2147483649", "offset"),
        ("/api/v1/experiments/{trial}/trials?offset=2147483648", "offset"),
        ("/api/v1/experiments?userIds=9223372036854775808", "userIds"),
        ("/api/v1/experiments?name=a%00b", "name"),
        ("/api/v1/experiments?labels=a%00b", "labels"),
        ("/api/v1/trials/{trial}/logs?searchText=a%00b", "searchText"),
        ("/api/v1/experiments/9223372036854775808", "experiment_id"),
        ("/api/v1/commands/a%00b", "task_id"),
        ("/api/v1/tasks/a%00b", "task_id"),
        ("/api/v1/checkpoints/a%00b", "checkpoint_uuid"),
    ],
)
async def test_an_edge_is_refused_by_its_field(there: Populated, url: str, field: str) -> None:
    message = await there.world.refused(
        400, "GET", url.format(trial=there.trial, experiment=there.experiment), token=there.admin
    )
    assert field in message


async def test_a_time_at_the_edge_of_the_calendar_is_stored_and_read(there: Populated) -> None:
    for time in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"):
        line = {"taskId": there.run.task_id, "log": time, "timestamp": time}
        await there.world.ok("POST", "/api/v1/task/logs", {"logs": [line]}, token=there.owner)
    found = await there.world.lines(f"/api/v1/tasks/{there.run.task_id}/logs?sources=user")
    assert [line["timestamp"] for line in found] == [
        "0001-01-01T00:00:00.000000Z",
        "9999-12-31T23:59:59.999999Z",
    ]
    config = {"config": COMMAND, "preview": True}
    await there.world.ok("POST", "/api/v1/commands", config)
