"""What a machine fetches with the token of its launch, before there is an agent on it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent_bootstrap.protocol import CREDENTIAL_HEADER, PROTOCOL_VERSION
from master.boots.outputs import BootOutputs
from rm_backends.ports import JoinGrant, JoinKind
from tests.fakes.api_world import BOOT, WHEEL, ApiWorld

PATH = "/api/v1/windlass/boot"


@pytest.fixture
def token(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a launch of i-1 and i-2, for an hour."""
    grant = JoinGrant(
        kind=JoinKind.LAUNCH,
        pool="default",
        id="launch-1",
        names=frozenset({"i-1", "i-2"}),
        agents=2,
        expires=world.clock.now() + timedelta(hours=1),
    )
    grants = {"of-the-launch": grant, "of-the-pool": JoinGrant(pool="default")}
    tokens = world.services.join_tokens
    monkeypatch.setattr(tokens, "find", lambda pools, token: grants.get(token))
    return "of-the-launch"


async def test_a_machine_fetches_what_sets_it_up(world: ApiWorld, token: str) -> None:
    response = await world.call("GET", f"{PATH}?instance=i-1", token=token)
    assert response.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(response.content)) as tar:
        found = {m.name: tar.extractfile(m).read().decode() for m in tar}  # type: ignore[union-attr]
        assert {member.mode for member in tar} == {0o600}
    assert found["startup_script"] == BOOT.startup_script
    assert json.loads(found["agent.yaml"]) == {"label": "cloud"}, "who it is the pool does not say"
    again = await world.call("GET", f"{PATH}?instance=i-1", token=token)
    assert again.content == response.content, "until it has joined"


async def test_wheels_come_with_their_digests(world: ApiWorld, token: str) -> None:
    listed = await world.call("GET", f"{PATH}/wheels?instance=i-1", token=token)
    assert listed.text == f"{hashlib.sha256(WHEEL.content).hexdigest()}  {WHEEL.name}\n"
    wheel = await world.call("GET", f"{PATH}/wheels/{WHEEL.name}?instance=i-1", token=token)
    assert wheel.content == WHEEL.content
    other = await world.call("GET", f"{PATH}/wheels/other.whl?instance=i-1", token=token)
    assert other.status_code == 404


async def test_a_stage_is_kept_as_one_printable_line(world: ApiWorld, token: str) -> None:
    with capture_logs() as logged:
        response = await world.client.post(
            f"{PATH}/stage?instance=i-1&stage=failed",
            content=b"exit code 3: \x1b[31m\xff\x00bad\nits secret output",
            headers={"Authorization": f"Bearer {token}"},
        )
    assert response.status_code == 200
    stage = world.services.boots.stage("i-1")
    assert stage is not None
    assert stage.name == "failed"
    assert stage.words.isprintable()
    assert "bad" in stage.words
    assert "secret" not in stage.words, "users see it"
    (event,) = [event for event in logged if event["event"] == "machine boots"]
    assert "secret" not in str(logged)
    assert read_private(Path(event["output"])) == "its secret output\n"


def read_private(path: Path) -> str:
    assert not (path.stat().st_mode | path.parent.stat().st_mode) & 0o077
    return path.read_text()


async def test_the_output_of_the_newest_machines_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("master.boots.outputs.MAX_KEPT", 2)
    outputs = BootOutputs(tmp_path / "boot-output")
    for number in range(4):
        path = await outputs.keep(f"../i-{number}", "it")
        assert path.parent == tmp_path / "boot-output"
        os.utime(path, (number, number))
    assert len(list(path.parent.iterdir())) == 2
    assert path.exists()


@pytest.mark.parametrize(
    ("shown", "machine", "says"),
    [
        ("", "i-1", "not the token of a launch"),
        ("wrong", "i-1", "not the token of a launch"),
        ("of-the-pool", "i-1", "not the token of a launch"),
        ("of-the-launch", "i-3", "is not for agent 'i-3'"),
    ],
)
async def test_nobody_else_gets_anything(
    world: ApiWorld, token: str, shown: str, machine: str, says: str
) -> None:
    for method, path in (
        ("GET", f"{PATH}?instance={machine}"),
        ("GET", f"{PATH}/wheels?instance={machine}"),
        ("GET", f"{PATH}/wheels/{WHEEL.name}?instance={machine}"),
        ("POST", f"{PATH}/stage?instance={machine}&stage=stub"),
    ):
        response = await world.call(method, path, token=shown)
        assert response.status_code == 403, path
        assert says in response.json()["message"]
        assert "of-the-pool" not in response.text


async def test_an_expired_token_is_good_for_nothing(world: ApiWorld, token: str) -> None:
    world.clock.advance(3600)
    response = await world.call("GET", f"{PATH}?instance=i-1", token=token)
    assert response.status_code == 403
    assert "expired at" in response.json()["message"]


async def test_what_has_joined_fetches_nothing_more(world: ApiWorld, token: str) -> None:
    """A task there that reads user data gets no secret of the pool for it."""
    body = {"agentId": "i-1", "instanceId": "i-1", "protocol": PROTOCOL_VERSION, "version": "0.1.0"}
    own = {CREDENTIAL_HEADER: "c" * 43}
    joined = await world.call("POST", "/api/v1/windlass/join", body, token=token, headers=own)
    assert joined.status_code == 200, joined.text
    response = await world.call("GET", f"{PATH}?instance=i-1", token=token)
    assert response.status_code == 403
    assert "'i-1' has joined already" in response.json()["message"]
    assert (await world.call("GET", f"{PATH}?instance=i-2", token=token)).status_code == 200
