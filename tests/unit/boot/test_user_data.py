"""User data: one small script, the same for the same launch, that no value can break out of."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.scripts.user_data import MAX_BYTES, UserDataInputs, user_data
from master.auth.join_tokens import JoinTokenSigner
from rm_backends.ports import JoinGrant, JoinKind
from windlass.base.errors import InvalidConfig

TOKEN = JoinTokenSigner(b"s" * 32).made_for(
    JoinGrant(
        kind=JoinKind.LAUNCH,
        pool="p" * 60,
        id="1234567890abcdef",
        agents=64,
        expires=datetime(2026, 1, 31, tzinfo=UTC),
    )
)
CERTIFICATE = "-----BEGIN CERTIFICATE-----\n" + "A" * 1500 + "\n-----END CERTIFICATE-----\n"
INPUTS = UserDataInputs(
    cloud=Cloud.AWS,
    cluster_id="c1",
    pool="gpu",
    intent_id="1234567890abcdef",
    master_url="https://10.0.0.1:8443",
    launch_token=TOKEN,
    master_cert=CERTIFICATE,
)


def settings_of(script: str) -> dict[str, str]:
    """What a shell makes of the values at the top."""
    names = ["CLOUD", "POOL", "LAUNCH", "BOOT_URL", "CONNECT_TO", "TOKEN", "MASTER_CERT"]
    top = script.partition("# May run at every boot")[0]
    shown = "".join(f"printf '%s\\0' \"${name}\"\n" for name in names)
    done = subprocess.run(["sh", "-c", top + shown], capture_output=True, check=True)
    assert done.stderr == b""
    return dict(zip(names, done.stdout.decode().split("\0"), strict=False))


def test_the_script_is_small_ascii_and_the_same_for_the_same_launch() -> None:
    script = user_data(INPUTS)
    assert script == user_data(replace(INPUTS))
    assert script.startswith("#!/bin/sh\n")
    assert script.isascii()
    assert len(script) <= MAX_BYTES
    assert TOKEN not in repr(INPUTS)


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"], ["bash"]], ids=lambda s: s[0])
def test_shells_can_read_it(shell: list[str]) -> None:
    try:
        done = subprocess.run(
            [*shell, "-n"], input=user_data(INPUTS), text=True, capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip(f"{shell[0]} is not installed")
    assert (done.returncode, done.stderr) == (0, "")


def test_its_values_say_where_the_master_is() -> None:
    said = settings_of(user_data(INPUTS))
    assert said["BOOT_URL"] == "https://10.0.0.1:8443/api/v1/windlass/boot"
    assert said["CONNECT_TO"] == ""
    assert said["TOKEN"] == TOKEN
    assert said["MASTER_CERT"] == CERTIFICATE
    named = settings_of(user_data(replace(INPUTS, master_cert_name="master.example")))
    assert named["BOOT_URL"] == "https://master.example:8443/api/v1/windlass/boot"
    assert named["CONNECT_TO"] == "master.example:8443:10.0.0.1:8443"
    six = settings_of(user_data(replace(INPUTS, master_url="http://[fd00::1]:8080")))
    assert six["BOOT_URL"] == "http://[fd00::1]:8080/api/v1/windlass/boot"


@given(pool=st.text(alphabet=st.characters(exclude_characters="\0")))
def test_no_name_of_a_pool_breaks_out_of_the_script(pool: str) -> None:
    said = settings_of(user_data(replace(INPUTS, pool=pool)))
    assert said["POOL"] == pool.encode("ascii", "replace").decode()
    assert said["LAUNCH"] == "1234567890abcdef of cluster c1"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"master_url": "10.0.0.1:8080"}, 'master_url: "10.0.0.1:8080" is not the URL of a master'),
        ({"master_url": "https://a b:1"}, "master_url: "),
        ({"master_url": "https://a:99999"}, "master_url: "),
        ({"master_cert_name": 'x"\nfoo'}, "master_cert_name: "),
        ({"launch_token": 'a"\nb'}, "launch_token: not a join token"),
        ({"master_cert": "A" * 9000}, "the master's certificate takes 9001"),
    ],
)
def test_what_cannot_be_said_is_refused(changes: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        user_data(replace(INPUTS, **changes))  # type: ignore[arg-type]
