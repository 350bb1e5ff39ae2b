"""Which ways nodes of batch jobs are told of, and what the master keeps running for them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.options import parse_options
from master.config import MasterConfig
from master.wiring.batch.pools import files_of
from master.wiring.batch.site import own_place, relay_keepers
from provisioner.batch.disks import LocalDisk
from provisioner.batch.job_files import JobShape
from provisioner.sections.batch import SlurmSection
from windlass.base.errors import InvalidConfig

TLS, PLAIN = "https://login1:8443", "http://login1:8080"


@dataclass
class Job:
    tag: str = "wl-1"
    job_name: str = "wl-1"
    pool: str = "gpu"
    agents: list[str] = field(default_factory=lambda: ["wl-1-0"])
    shape: JobShape = field(
        default_factory=lambda: JobShape(queue="gpu", nodes=1, slots_per_node=1, gpus_per_node=1)
    )


def agent_of(tmp_path: Path, url: str, **section: Any) -> dict[str, Any]:
    """What is written for the agent of a node."""
    files = files_of(
        SlurmSection.model_validate(
            {"type": "slurm", "job_storage_root": str(tmp_path / "jobs"), **section}
        ),
        disk=LocalDisk(),
        data_dir=tmp_path,
        master_url=url,
        master_cert=None,
    )
    files.write(Job(), "secret")
    told: dict[str, Any] = json.loads((tmp_path / "jobs/wl-1/nodes/0/host.json").read_text())
    return dict(told["agent"])


def test_nodes_of_a_master_with_tls_have_all_ways(tmp_path: Path) -> None:
    told = agent_of(tmp_path, TLS, login_host="me@login-ib:2222")
    assert told["channels"] == ["direct", "relay", "ssh", "srun", "files"]
    assert told["ssh_login"] == "me@login-ib:2222"
    assert told["job_folder"] == str(tmp_path / "jobs/wl-1/nodes/0")
    del told["join_token"]
    assert parse_options(told).channels == tuple(told["channels"])


def test_nodes_of_a_master_without_have_the_network(tmp_path: Path) -> None:
    assert not {"channels", "job_folder", "ssh_login"} & set(agent_of(tmp_path, PLAIN))
    assert not {"channels", "job_folder"} & set(agent_of(tmp_path, TLS, channels=["direct"]))


def test_a_way_that_others_share_needs_tls(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as refused:
        agent_of(tmp_path, PLAIN, channels=["direct", "relay"])
    assert list(refused.value.problems) == [
        "resource_pools: channels: relay needs TLS, for others share the way to http://login1:8080: set "
        "security.tls.self_signed: true"
    ]


def config(*sections: dict[str, Any], **keys: Any) -> MasterConfig:
    pools = [
        {"pool_name": f"p{n}", "provider": {"type": "slurm", **section}}
        for n, section in enumerate(sections)
    ]
    return MasterConfig.model_validate({"resource_pools": pools, **keys})


def test_one_relay_for_each_folder_of_jobs(tmp_path: Path) -> None:
    pools = [
        {"job_storage_root": "/a", "login_host": "me@login-ib", "relay_port": 4711, "python": "/p"},
        {"job_storage_root": "/a", "login_host": "me@login-ib", "relay_port": 4711, "python": "/p"},
        {"job_storage_root": "/b", "channels": ["direct", "ssh"]},
        {},
    ]
    first, second = relay_keepers(config(*pools), tmp_path, TLS, own_tls=True)
    assert first.words[:7] == ("/p", "-P", "-m", "agent_bootstrap.relay", "--root", "/a", "--host")
    assert first.words[7:] == ("login-ib", "--port", "4711")
    assert second.words[4:] == ("--root", str(tmp_path / "jobs"))


@pytest.mark.parametrize(("url", "own_tls"), [(PLAIN, False)])
def test_no_relay_without_tls(tmp_path: Path, url: str, own_tls: bool) -> None:
    assert relay_keepers(config({}), tmp_path, url, own_tls=own_tls) == []


def test_the_relay_leads_to_what_has_the_certificate() -> None:
    everywhere = config(host="::", port=8443)
    assert own_place(everywhere, TLS, own_tls=True) == ("127.0.0.1", 8443)
    assert own_place(config(host="10.0.0.5", port=1), TLS, own_tls=True) == ("10.0.0.5", 1)
    assert own_place(everywhere, "https://proxy", own_tls=False) == ("proxy", 443)
