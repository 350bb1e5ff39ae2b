"""The bundled price book, asked anew of the vendors for a release: by the real clients, of doubles."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from provisioner.money.price_book import BUNDLED, PriceBook, read_table
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.catalogue import learn
from provisioner.providers.aws.client import AwsClient, AwsError
from provisioner.providers.gcp.site import GcpSite
from tests.contract.providers.aws import OPTIONS, aws
from tests.contract.providers.gcp import gcp_case
from tests.contract.test_provider_prices import SKUS
from tests.fakes.ec2_server import REGION
from tools.prices import asked, renewed, text_of, write

TODAY = date(2026, 11, 23)


def test_what_is_not_changed_is_written_as_it_was() -> None:
    text = BUNDLED.read_text()
    assert text_of(json.loads(text)) == text


@pytest.mark.slow
async def test_vendors_are_asked_and_what_they_do_not_name_keeps_its_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(BUNDLED.read_text())
    file = tmp_path / "price_book.json"
    async with aws(tmp_path) as ec2, gcp_case(tmp_path) as gce:
        ec2.server.price("g4dn.xlarge", REGION, "0.6000000000")
        ec2.server.price("p5e.48xlarge", REGION, "60.0000000000")
        ec2.server.price("g5.xlarge", REGION, "1006.0000000000")
        gce.fake.cloud.skus = SKUS
        account = AwsAccount(name="aws", region=REGION, endpoint_url=ec2.server.url)
        site = GcpSite(name="acme", project="acme", region="us-central1", endpoint_url=gce.fake.url)
        found = await asked(read_table(BUNDLED), account, site, TODAY)
    assert write(file, document, found, TODAY) == 0
    assert "1006 USD per hour for g5.xlarge" in capsys.readouterr().err
    book = PriceBook(table=read_table(file))

    def price(cloud: str, region: str, name: str) -> tuple[float, date]:
        found = book.price(cloud, region, name)
        return found.usd_per_hour, found.as_of

    old = date.fromisoformat(document["as_of"])
    assert book.table.as_of == TODAY
    assert price("aws", REGION, "g4dn.xlarge") == (0.6, TODAY)
    assert price("aws", REGION, "p5e.48xlarge") == (60.0, TODAY)
    assert price("aws", REGION, "g5.xlarge") == (1.006, old)
    assert price("gcp", "us-central1", "n1-standard-8")[1] == TODAY
    assert price("gcp", "us-central1", "e2-small")[1] == old
    assert book.price("aws", REGION, "g7e.2xlarge").note.startswith("no price is known")


async def test_networks_and_gpus_of_the_book_are_those_that_ec2_tells(tmp_path: Path) -> None:
    """g6e.48xlarge has 4 cards of 400 Gbit/s that share 400; p6-b200 8 of 200 that have 3,200 with EFA."""
    machines = read_table(BUNDLED).clouds["aws"].types
    names = sorted(name for name, machine in machines.items() if machine.gpus)
    async with aws(tmp_path) as ec2:
        client = AwsClient(AwsAccount(name="aws", region=REGION, endpoint_url=ec2.server.url))
        client.open()
        wanted = [OPTIONS.section.model_copy(update={"instance_type": name}) for name in names]
        try:
            told = (await learn(client, wanted, datetime.now(UTC))).types
        finally:
            client.close()
    assert len(told) > 50
    assert {name: (x.network_gbps, x.gpus, x.cpus) for name, x in told.items()} == {
        name: (machines[name].network_gbps, machines[name].gpus, machines[name].cpus)
        for name in told
    }


async def test_a_vendor_that_refuses_leaves_the_book_alone(tmp_path: Path) -> None:
    async with aws(tmp_path) as ec2, gcp_case(tmp_path) as gce:
        ec2.server.rule("GetProducts", code="AccessDeniedException", message="no", times=-1)
        account = AwsAccount(name="aws", region=REGION, endpoint_url=ec2.server.url)
        site = GcpSite(name="acme", project="acme", region="us-central1", endpoint_url=gce.fake.url)
        with pytest.raises(AwsError, match="AccessDenied"):
            await asked(read_table(BUNDLED), account, site, TODAY)


def test_a_second_refresh_keeps_the_days_of_the_first() -> None:
    first, _ = renewed(json.loads(BUNDLED.read_text()), [], TODAY)
    second, _ = renewed(first, [], date(2027, 1, 1))
    old = json.loads(BUNDLED.read_text())["as_of"]
    assert second["clouds"]["aws"]["types"]["g5.xlarge"]["as_of"] == old
