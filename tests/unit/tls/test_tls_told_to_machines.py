"""What machines elsewhere are told of a certificate that the master has signed itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from master.auth.join_tokens import JoinTokenSigner
from master.data_folder import TLS
from master.tls.own_authority import OwnAuthority
from master.wiring.batch.pools import files_of
from master.wiring.cloud_boot import CloudBoot
from master.wiring.launch_tokens import LaunchTokens
from provisioner.batch.disks import LocalDisk
from provisioner.sections.batch import SlurmSection
from tests.fakes.pool_machines import aws_machines
from windlass.base.tls.fingerprints import certificates_in, fingerprint_of


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The file that the master serves: its key is in it."""
    authority = OwnAuthority(tmp_path / TLS, ["login1"])
    authority.ensure(datetime.now(UTC))
    assert b"PRIVATE KEY" in authority.files.cert.read_bytes()
    return authority.files.cert


def agent_of(tmp_path: Path, cert: Path | None, **section: Any) -> Any:
    files = files_of(
        SlurmSection.model_validate({"type": "slurm", **section}),
        disk=LocalDisk(),
        data_dir=tmp_path,
        master_url="https://login1:8443",
        master_cert=cert,
    )
    return files.agent["security"]["tls"]


def test_the_key_stays_on_the_masters_machine(own: Path) -> None:
    tokens = LaunchTokens(JoinTokenSigner(b"s" * 32))
    boot = CloudBoot(master_url="https://m", master_cert=own, tokens=tokens)
    (machines,) = boot.told([aws_machines(region="us-east-1")])
    told = machines.boot["master_cert"]
    assert "PRIVATE KEY" not in str(told)
    assert certificates_in(str(told).encode()) == certificates_in(own.read_bytes())


def test_agents_of_jobs_pin_the_authority_and_need_no_file(tmp_path: Path, own: Path) -> None:
    """The data folder may be on a disk that nodes do not see, or on another machine."""
    told = {"cert_fingerprint": fingerprint_of(certificates_in(own.read_bytes())[-1])}
    there = {"job_storage_root": "/jobs", "python": "/python", "ssh": {"host": "login1"}}
    assert agent_of(tmp_path, own) == told
    assert agent_of(tmp_path, own, **there) == told


def test_a_certificate_of_another_authority_is_trusted_as_before(tmp_path: Path) -> None:
    bought = Path("/etc/ssl/master.pem")
    there = {"job_storage_root": "/jobs", "python": "/python", "ssh": {"host": "login1"}}
    assert agent_of(tmp_path, bought) == {"master_cert": str(bought)}
    assert agent_of(tmp_path, bought, **there) == {}
    assert agent_of(tmp_path, None) == {}
