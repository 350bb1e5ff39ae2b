"""Mistakes in interactive and generic tasks: refused before anything runs, with field, value and way out."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import run_here
from tests.real_cluster import RealCluster
from windlass.base.errors import InvalidArgument, NotFound
from windlass.sdk.interactive import KINDS

CONFIGURED = ("notebooks", "shells", "commands", "generic-tasks")
GENERIC = "generic-tasks"
PORTS = "<config>.environment.proxy_ports"
TOO_LARGE = 96 * 1024 * 1024
HELD = {"entrypoint": ["sleep", "600"], "resources": {"slots": 0}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("bad-input")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


@pytest.fixture(scope="module")
def command(cluster: RealCluster) -> str:
    """Runs all the time."""
    return launch(cluster, "commands", HELD)


@pytest.fixture(autouse=True)
def nothing_is_launched(cluster: RealCluster) -> Iterator[None]:
    before = launched(cluster)
    yield
    assert launched(cluster) == before


def launched(cluster: RealCluster) -> set[str]:
    """Ids of everything, also of what is over."""
    of_kinds = (cluster.client.interactive(kind).listed() for kind in KINDS)
    living = cluster.get("/api/v1/tasks")["allocationIdToSummary"]
    return {one["id"] for listed in of_kinds for one in listed} | set(living)


def launch(cluster: RealCluster, kind: str, config: dict[str, Any], **more: Any) -> str:
    """The id of a new task. Raises what the master refused it with."""
    if kind in ("commands", GENERIC):
        config = {"entrypoint": ["true"], **config}
    sent = yaml.safe_dump(config) if kind == GENERIC else config
    reply = cluster.client.session.post(f"/api/v1/{kind}", {"config": sent, **more})
    return str(reply["taskId"] if kind == GENERIC else reply[kind.removesuffix("s")]["id"])


def ports(*numbers: int) -> dict[str, Any]:
    return {"environment": {"proxy_ports": [{"proxy_port": number} for number in numbers]}}


@pytest.mark.parametrize("kind", CONFIGURED)
@pytest.mark.parametrize(
    ("config", "said"),
    [
        (ports(80, 0), f"{PORTS}[1].proxy_port: must be >= 1 but found 0"),
        (ports(70000), f"{PORTS}[0].proxy_port: must be <= 65535 but found 70000"),
        (
            ports(*range(1000, 2000)),
            f"{PORTS}: 1000 ports, more than the 100 that one task may have: serve several things on one port",
        ),
        (
            ports(8080, 9090, 8080),
            f"{PORTS}[2].proxy_port: 8080 is that of proxy_ports[0], too: leave one of them out, or serve on another",
        ),
        (
            {"resources": {"slots": 10_000}},
            "Requested 10000 slots on one agent; the largest agent of pool 'default' has 1: the nearest size that "
            "fits is 1",
        ),
        (
            {"resources": {"resource_pool": "nowhere"}},
            '<config>.resources.resource_pool: there is no pool "nowhere" for workspace 1; use one of default',
        ),
    ],
    ids=["port 0", "port 70000", "1000 ports", "a port twice", "10000 slots", "an unknown pool"],
)
def test_a_configuration_that_cannot_be_is_refused(
    cluster: RealCluster, kind: str, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        launch(cluster, kind, config)
    assert said in refused.value.message


@pytest.mark.parametrize("kind", CONFIGURED)
@pytest.mark.parametrize("value", ["soon", -5])
def test_an_idle_time_that_is_no_duration_is_refused(
    cluster: RealCluster, kind: str, value: object
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        launch(cluster, kind, {"idle_timeout": value})
    if kind == GENERIC:
        assert 'additionalProperties "idle_timeout" not allowed' in refused.value.message
    else:
        shown = f'"{value}"' if isinstance(value, str) else value
        said = f'<config>.idle_timeout: {shown} is not a duration: write "90s", "5m" or "1h30m"'
        assert said in refused.value.message


def test_every_mistake_is_said_at_once(cluster: RealCluster) -> None:
    config = {**ports(0), "idle_timeout": "soon", "resources": {"slots": -1}}
    with pytest.raises(InvalidArgument) as refused:
        launch(cluster, "notebooks", config)
    for field in (f"{PORTS}[0].proxy_port", "<config>.idle_timeout", "<config>.resources.slots"):
        assert f"{field}: " in refused.value.message


@pytest.mark.parametrize(
    ("kind", "field"),
    [("shells", "files"), (GENERIC, "contextDirectory")],
    ids=["files", "context"],
)
def test_files_that_are_too_large_are_refused(cluster: RealCluster, kind: str, field: str) -> None:
    content = base64.b64encode(bytes(TOO_LARGE)).decode()
    with pytest.raises(InvalidArgument) as refused:
        launch(cluster, kind, {}, **{field: [{"path": "large", "content": content}]})
    said = f"context has {TOO_LARGE} bytes, more than 99614720: leave out what .detignore can name"
    assert said in refused.value.message


@pytest.mark.parametrize("noun", ["notebook", "shell", "cmd", "task"])
def test_our_client_does_not_send_them(cluster: RealCluster, noun: str, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    with (context / "large").open("wb") as large:
        os.truncate(large.fileno(), TOO_LARGE)
    task = tmp_path / "task.yaml"
    task.write_text(yaml.safe_dump(HELD))
    words = {"cmd": ("run",), "task": ("create", str(task))}.get(noun, ("start",))
    environ = {"HOME": str(tmp_path), "DET_MASTER": cluster.url, **cluster.login_as()}
    last = ("true",) if noun == "cmd" else ()
    refused = run_here((noun, *words, "-c", str(context), *last), environ)
    assert refused.returncode == 1
    assert "more than 95 MiB (reached at large): exclude data with a .detignore" in refused.stderr


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({}, InvalidArgument, "experimentIds, trialIds: say which experiments or trials to show"),
        ({"experimentIds": [7], "trialIds": [8]}, NotFound, "experiment '7' not found, nor trial"),
        ({"filters": {"labels": ["none"]}}, InvalidArgument, "filters: no experiment matches them"),
    ],
    ids=["nothing", "unknown ones", "filters that match none"],
)
def test_a_tensorboard_of_nothing_is_refused(
    cluster: RealCluster, asked: dict[str, Any], error: type[InvalidArgument | NotFound], said: str
) -> None:
    with pytest.raises(error) as refused:
        launch(cluster, "tensorboards", {}, **asked)
    assert said in refused.value.message


def test_a_parent_is_an_older_generic_task(cluster: RealCluster, command: str) -> None:
    """So there is no cycle: a task has no id that could be named before it is there, and its parent stays the same."""
    for parent in ("nobody", command):
        with pytest.raises(NotFound) as refused:
            launch(cluster, GENERIC, {}, parentId=parent)
        said = f"generic task '{parent}' not found (make sure task is of type GENERIC)"
        assert said in refused.value.message
    with pytest.raises(InvalidArgument, match="inheritContext: needs parentId"):
        launch(cluster, GENERIC, {}, inheritContext=True)
