"""Images on a machine: their names, the lines of a pull, logins, and which go when the disk is full."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.engine.connection import Engine
from agent_bootstrap.agent.runtimes.engine.image_names import (
    image_name,
    registry_of,
    same_registry,
)
from agent_bootstrap.agent.runtimes.engine.image_record import ImageRecord
from agent_bootstrap.agent.runtimes.engine.images import AGAIN_S, Images, PullProgress, _usable
from agent_bootstrap.agent.runtimes.pulls import pull_refused
from agent_bootstrap.protocol import ExitFailure, RegistryCredentials


@pytest.mark.parametrize(
    ("name", "registry"),
    [
        ("python:3.11", "docker.io"),
        ("team/net", "docker.io"),
        ("localhost/net:1", "localhost"),
        ("reg.example:5000/team/net:1", "reg.example:5000"),
        ("index.docker.io/team/net", "docker.io"),
    ],
)
def test_the_registry_of_a_name(name: str, registry: str) -> None:
    assert registry_of(name) == registry


def test_servers_are_compared_by_their_host() -> None:
    assert same_registry("https://index.docker.io/v1/", "docker.io")
    assert same_registry("https://user@Reg.example:5000/v2", "reg.example:5000")
    assert not same_registry("reg.example", "reg.example:5000")


def test_names_that_only_apptainer_takes_are_refused() -> None:
    assert image_name("docker://team/net:1") == "team/net:1"
    for name in ("/images/net.sif", "oras://reg/net:1"):
        with pytest.raises(StartRefused, match="Docker and Podman run images of registries only"):
            image_name(name)


def test_a_login_for_another_registry_is_not_sent() -> None:
    said: list[str] = []
    login = RegistryCredentials(server="reg.example", username="ann", password="s3cret")
    assert (
        _usable(login, "other.example/net:1", lambda text, level="INFO": said.append(text)) is None
    )
    assert said == ["registry_auth is for reg.example, but the image is at other.example: not used"]
    found = _usable(login, "reg.example/net:1", lambda text: None)
    assert found == {"username": "ann", "password": "s3cret", "serveraddress": "reg.example"}
    anywhere = _usable(RegistryCredentials(identity_token="t"), "python:3", lambda text: None)
    assert anywhere == {"identitytoken": "t", "serveraddress": "docker.io"}


@pytest.mark.parametrize(
    ("problem", "with_login", "failure", "says"),
    [
        ("write /x: no space left on device", False, ExitFailure.ABORTED, "disk .* is full"),
        ("unauthorized: incorrect username", True, ExitFailure.TASK_ERROR, "check registry_auth,"),
        (
            "denied: access forbidden",
            False,
            ExitFailure.TASK_ERROR,
            "set environment.registry_auth",
        ),
        ("manifest unknown", False, ExitFailure.TASK_ERROR, "does not exist: check the name"),
        ("dial tcp: no such host", False, ExitFailure.TASK_ERROR, "cannot be pulled: dial tcp"),
    ],
)
def test_why_an_image_cannot_be_had_is_one_sentence(
    problem: str, with_login: bool, failure: ExitFailure, says: str
) -> None:
    refused = pull_refused("reg/net:1", problem, with_login=with_login)
    assert refused.failure is failure
    with pytest.raises(StartRefused, match=says):
        raise refused


def test_progress_is_a_line_now_and_then() -> None:
    progress = PullProgress("net:1")

    def layer(name: str, status: str, **detail: int) -> dict[str, object]:
        return {"id": name, "status": status, "progressDetail": detail}

    mib = 2**20
    assert progress.line({"status": "Pulling from team/net", "id": "1"}, 0) == ""
    assert progress.line(layer("a", "Downloading", current=0, total=40 * mib), 1) == ""
    assert progress.line(layer("b", "Already exists"), 2) == ""
    assert progress.line(layer("a", "Downloading", current=10 * mib, total=40 * mib), 6) == (
        "Pulling image net:1: 1 of 2 layers, 10 of 40 MiB"
    )
    assert progress.line(layer("a", "Pull complete"), 7) == ""
    assert progress.line(layer("a", "Pull complete"), 12) == (
        "Pulling image net:1: 2 of 2 layers, 40 of 40 MiB"
    )


def test_the_longest_unused_of_ours_go_first_and_none_that_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(100))
    monkeypatch.setattr("time.time", lambda: float(next(now)))
    record = ImageRecord(tmp_path)
    for name in ("old", "busy", "new"):
        record.pulled(name, name)
    record.used("theirs", "theirs", {})
    record.used("old", "old", {"/etc/passwd": "x"})  # no longer the oldest
    sizes = {"old": 10, "busy": 10, "new": 10, "theirs": 1000}
    assert record.leaving(sizes, {"busy"}, 20) == ["new"]
    assert record.leaving(sizes, {"busy"}, 0) == ["new", "old"]
    assert record.leaving(sizes, (), 30) == []
    again = ImageRecord(tmp_path)
    assert again.leaving(sizes, {"busy"}, 0) == ["new", "old"], "remembered"
    assert again.accounts("old") == {"/etc/passwd": "x"}
    assert again.accounts("new") is None


def test_a_pull_that_fills_the_disk_is_not_tried_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def full(self: Images, reference: str, *_: object) -> str:
        tried.append(reference)
        return "write /layer: no space left on device"

    monkeypatch.setattr(Images, "_pull_once", full)
    monkeypatch.setattr(Images, "_remove_unused", lambda self, keep_bytes: False)
    engine = Engine(kind="podman", version="4", api_version="1.41", socket="/none")
    images = Images(engine, ImageRecord(tmp_path, limit_bytes=0))
    with pytest.raises(StartRefused, match="the disk of the agent's machine is full"):
        images.pull("reg.example/net:1", None, lambda *_: None, threading.Event())
    assert tried == ["reg.example/net:1"]


def test_between_tries_of_a_pull_there_is_a_pause_and_after_the_last_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []

    class GivenUp(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            done.append(timeout)
            return False

    def refused(self: Images, *_: object) -> str:
        done.append("tried")
        return "connection refused"

    monkeypatch.setattr(Images, "_pull_once", refused)
    engine = Engine(kind="podman", version="4", api_version="1.41", socket="/none")
    images = Images(engine, ImageRecord(tmp_path, limit_bytes=0))
    with pytest.raises(StartRefused, match="connection refused"):
        images.pull("reg.example/net:1", None, lambda *_: None, GivenUp())
    assert done == ["tried", AGAIN_S, "tried", 2 * AGAIN_S, "tried"]
