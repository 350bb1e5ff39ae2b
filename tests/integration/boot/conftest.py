"""A machine with the user data of one launch, and the part of a master that its boot talks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.scripts.user_data import UserDataInputs
from tests.certificates import Authority
from tests.fakes.boot_master import BootMaster, boot_master
from tests.fakes.cloud_machine import CloudMachine, metadata_service

TOKEN = "launch.e30.0123456789abcdef"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def master(authority: Authority) -> Iterator[BootMaster]:
    with boot_master(authority.issue(), TOKEN) as master:
        yield master


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[CloudMachine]:
    with metadata_service("i-0123456789") as metadata:
        yield CloudMachine(tmp_path / "machine", metadata)


@pytest.fixture
def inputs(master: BootMaster, authority: Authority) -> UserDataInputs:
    return UserDataInputs(
        cloud=Cloud.AWS,
        cluster_id="c1",
        pool="gpu",
        intent_id="launch-1",
        master_url=master.url,
        launch_token=TOKEN,
        master_cert=authority.root.read_text(),
        patience_s=3,
    )
