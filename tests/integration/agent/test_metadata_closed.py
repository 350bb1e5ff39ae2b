"""Tasks of a real agent on a machine of a cloud: they get credentials for storage, and nothing else of its metadata."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import namespaces
from tests.jails import open_way_to

HERE = Path(__file__).parent
ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not namespaces.works(),
        reason="network namespaces and rules of routing need root here, and iproute2",
    ),
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("machine")
    open_way_to(folder / "x")
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-P", str(HERE / "metadata_machine.py"), str(folder)],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": f"{ROOT}:{HERE}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_task_cannot_ask_the_service_and_gets_the_machines_credentials(seen: Any) -> None:
    assert seen["long"]["service"] == "ENETUNREACH"
    assert seen["long"]["bound"] == "ENETUNREACH", "any user may bind to a device, past a refusal"
    assert seen["long"]["key"] == "AK-of-i-0123", "by boto3"
    assert seen["long"]["names"] == "ECONNREFUSED", "Google's resolver has the same address"
    assert seen["of root, before"] == "connected", "programs of the machine go on as they did"


def test_a_device_that_comes_up_while_a_task_runs_is_closed_to_it(seen: Any) -> None:
    assert seen["late"] == "ENETUNREACH"


def test_a_container_with_a_network_of_its_own_is_no_way_around(seen: Any) -> None:
    assert seen["bridged"] == "EHOSTUNREACH"
    assert seen["bridged, by its token"] == 200


def test_a_task_of_root_cannot_ask_it_either(seen: Any) -> None:
    assert seen["root"]["service"] == "ENETUNREACH"
    assert seen["root"]["bound"] == "ENETUNREACH"
    assert seen["root"]["key"] == "AK-of-i-0123"
    assert seen["of root, after"] == "ENETUNREACH"
    assert seen["of root, next agent"] == "ENETUNREACH", "a task of the first agent may be root's"


def test_another_users_task_cannot_have_its_neighbours_token(seen: Any) -> None:
    assert seen["thief"]["sees"] == "False"
    assert seen["thief"]["reads"] == "b''"
    assert seen["forged"] == 403


def test_a_token_outlives_the_agent_and_not_its_task(seen: Any) -> None:
    assert seen["next agent"] == 200
    assert seen["ended"] == 403
