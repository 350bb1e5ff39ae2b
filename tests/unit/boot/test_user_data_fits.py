"""User data of any launch fits, or the master says at its start that none would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.scripts.user_data import MAX_BYTES
from master.auth.join_tokens import JoinTokenSigner
from master.wiring.cloud_boot import _LONGEST, CloudBoot
from master.wiring.launch_tokens import MOST_NAMES, LaunchTokens
from provisioner.providers.base import LaunchIntent
from provisioner.types import Market, Offer, OfferKey
from tests.fakes.pool_machines import gcp_machines
from windlass.base.errors import InvalidConfig

SIGNER = JoinTokenSigner(b"s" * 32)
MACHINES = gcp_machines(project="acme-ml-1", zone="us-central1-a")
POOL = "p" * 64
OFFER = Offer(
    key=OfferKey(
        provider="gcp-p",
        region="us-central1",
        zone="us-central1-a",
        instance_type="a2-highgpu-8g",
        market=Market.SPOT,
    ),
    slots=8,
    usd_per_hour=1.0,
    boot_s=180.0,
)


def certificate(size: int) -> str:
    body = "A" * (size - len("-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----\n"))
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> CloudBoot:
    monkeypatch.setattr("master.wiring.cloud_boot.read_certificates", lambda *_: certificate(size))
    tokens = LaunchTokens(SIGNER)
    return CloudBoot(
        master_url="https://10.0.0.1:8443", master_cert=tmp_path / "cert.pem", tokens=tokens
    )


def launch(count: int, settings: Any) -> LaunchIntent:
    return LaunchIntent(
        intent_id="i" * 36,
        token="t",
        cluster_id="c" * 36,
        pool=POOL,
        generation=0,
        offer=OFFER,
        count=count,
        request={"boot": settings},
    )


@pytest.mark.parametrize("count", [1, MOST_NAMES, MOST_NAMES + 1, 64, 500])
def test_a_gang_of_any_size_fits_beside_a_chain_of_certificates(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = boot(tmp_path, monkeypatch, 3000)
    names = [f"{'n' * 59}-{number:03}" for number in range(count)]
    intent = launch(count, one.told([replace(MACHINES, pool=POOL)])[0].boot)
    assert len(one.user_data(Cloud.GCP, intent, names)) <= MAX_BYTES
    token = one.tokens(intent, names)
    assert len(token) <= len(_LONGEST["launch_token"])
    grant = SIGNER.find([POOL], token)
    assert grant is not None
    # Of more the provider is asked for the names when they exist.
    assert (len(grant.names), grant.agents) == (count if count <= MOST_NAMES else 0, count)


def test_a_certificate_that_no_machine_could_be_told_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = boot(tmp_path, monkeypatch, 6000)
    with pytest.raises(InvalidConfig) as refused:
        one.told([MACHINES])
    assert "user data of pool gpu has" in refused.value.message
    assert (
        "of 8192: the master's certificate takes 6000; put fewer certificates into the file of "
        "security.tls.cert" in refused.value.message
    )
