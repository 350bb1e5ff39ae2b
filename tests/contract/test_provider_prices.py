"""What vendors say that machines cost, read by the real clients, and what pools then pay attention to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from provisioner.money.fresh_prices import FreshPrice, KnowsPrices, keyed
from provisioner.money.price_book import PriceOverride, open_book
from provisioner.types import Market
from tests.contract.providers.aws import OPTIONS, AwsCase, aws
from tests.contract.providers.base import POOL
from tests.contract.providers.gcp import gcp_case
from tests.fakes.ec2_server import REGION
from tests.fakes.pool_machines import gcp_machines
from windlass.base.errors import ProviderError

TODAY = date(2026, 11, 22)


async def refreshed(provider: KnowsPrices) -> dict[tuple[str, Market], float]:
    assert isinstance(provider, KnowsPrices)
    found = await provider.list_prices(TODAY)
    assert all(price.as_of == TODAY for price in found)
    return {(price.name, price.market): price.usd_per_hour for price in found}


async def test_on_demand_prices_are_those_of_the_price_list(tmp_path: Path) -> None:
    async with aws(tmp_path) as case:
        await sold_by_list(case)
        assert await refreshed(case.provider) == {}, "what is not listed is unknown, not free"
        case.server.price("g4dn.xlarge", REGION, "0.6000000000")
        case.server.price("g4dn.xlarge", "eu-west-1", "0.9000000000")
        assert await refreshed(case.provider) == {("g4dn.xlarge", Market.ON_DEMAND): 0.6}
        case.server.price("g4dn.xlarge", REGION, "0.0000000000")
        assert await refreshed(case.provider) == {}


async def sold_by_list(case: AwsCase) -> None:
    """Without a price of the pool's own."""
    await case.provider.close()
    case.provider = case.make(OPTIONS.but(usd_per_hour=None))
    await case.provider.open()


async def test_offers_follow_and_say_where_their_price_is_from(tmp_path: Path) -> None:
    async with aws(tmp_path) as case:
        await sold_by_list(case)
        before = on_demand(case)
        assert before.price_origin.startswith("price book of 20")
        case.server.price("g4dn.xlarge", REGION, "0.6000000000")
        fresh = keyed(await case.provider.list_prices(TODAY))
        case.provider.use(replace(open_book(None), fresh=fresh))
        offer = on_demand(case)
        assert (offer.usd_per_hour, offer.price_origin) == (0.6, "AWS price list of 2026-11-22")
        (spot,) = [x for x in case.provider.offers(POOL) or () if x.key.market is Market.SPOT]
        assert spot.price_origin == "EC2's spot prices"
        cheaper = PriceOverride(discount=0.5)
        case.provider.use(replace(open_book(None, [cheaper]), fresh=fresh))
        assert on_demand(case).usd_per_hour == 0.3, "discounts come last"


def on_demand(case: AwsCase) -> Any:
    offers = case.provider.offers(POOL) or ()
    (found,) = [offer for offer in offers if offer.key.market is Market.ON_DEMAND]
    return found


async def test_without_permission_the_price_list_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with aws(tmp_path) as case:
        case.server.rule(
            "GetProducts",
            code="AccessDeniedException",
            message="User windlass is not authorized to perform: pricing:GetProducts",
        )
        with pytest.raises(ProviderError, match="pricing:GetProducts"):
            await case.provider.list_prices(TODAY)


def sku(
    text: str,
    usage: str,
    nanos: int,
    regions: Sequence[str] = ("us-central1",),
    currency: str = "USD",
) -> Any:
    """As the catalogue has it; the first tier of some is free."""
    price = {"currencyCode": currency, "units": "0", "nanos": nanos}
    tiers = [{"startUsageAmount": 0, "unitPrice": price}]
    return {
        "name": f"services/6F81-5844-456A/skus/{abs(hash(text)) % 10_000}",
        "description": text,
        "category": {"resourceFamily": "Compute", "resourceGroup": "CPU", "usageType": usage},
        "serviceRegions": list(regions),
        "pricingInfo": [{"pricingExpression": {"usageUnit": "h", "tieredRates": tiers}}],
    }


SKUS = [
    sku("A2 Instance Core running in Americas", "OnDemand", 31_611_000),
    sku("A2 Instance Ram running in Americas", "OnDemand", 4_237_000),
    sku("Nvidia Tesla A100 GPU running in Americas", "OnDemand", 933_908_000),
    sku("Nvidia Tesla A100 80GB GPU running in Americas", "OnDemand", 999_000_000),
    sku("A2 Instance Core running in EMEA", "OnDemand", 900_000_000, ["europe-west4"]),
    sku("Commitment v1: A2 Cpu in Americas for 1 Year", "Commit1Yr", 1),
    sku("A2 Custom Instance Core running in Americas", "OnDemand", 999_000_000),
    sku("Spot Preemptible A2 Instance Core running in Americas", "Preemptible", 10_000_000),
    sku("N1 Predefined Instance Core running in Americas", "OnDemand", 31_611_000),
    sku("N1 Predefined Instance Ram running in Americas", "OnDemand", 4_237_000),
    sku("Nvidia Tesla T4 GPU running in Americas", "OnDemand", 350_000_000),
    sku(
        "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas",
        "Preemptible",
        110_000_000,
    ),
]
POOLS = (
    gcp_machines(POOL, machine_type="a2-highgpu-1g", zones=["us-central1-a"]),
    gcp_machines(
        POOL,
        machine_type="n1-standard-8",
        gpu_type="nvidia-tesla-t4",
        gpu_num=1,
        zones=["us-central1-a"],
    ),
)


async def test_machines_of_google_cost_the_sum_of_their_parts(tmp_path: Path) -> None:
    async with gcp_case(tmp_path) as case:
        await case.provider.close()
        case.provider = case.made(POOLS)
        await case.provider.open()
        case.fake.cloud.skus = SKUS
        found = await refreshed(case.provider)
        assert found.pop(("a2-highgpu-1g", Market.ON_DEMAND)) == pytest.approx(
            12 * 0.031611 + 85 * 0.004237 + 0.933908
        )
        assert found.pop(("n1-standard-8", Market.ON_DEMAND)) == pytest.approx(
            8 * 0.031611 + 30 * 0.004237
        )
        assert found == {
            ("nvidia-tesla-t4", Market.ON_DEMAND): 0.35,
            ("nvidia-tesla-t4", Market.SPOT): 0.11,
        }, "what lacks a part is left to the price book"
        book = replace(open_book(None), fresh=keyed(await case.provider.list_prices(TODAY)))
        case.provider.use(book)
        offers = {x.key.instance_type: x for x in case.provider.offers(POOL) or ()}
        assert offers["a2-highgpu-1g"].price_origin == "Google billing catalogue of 2026-11-22"
        (added,) = [x for name, x in offers.items() if name.startswith("n1")]
        assert added.usd_per_hour == pytest.approx(8 * 0.031611 + 30 * 0.004237 + 0.35)


async def test_a_catalogue_that_is_refused_says_what_google_says(tmp_path: Path) -> None:
    async with gcp_case(tmp_path) as case:
        case.fake.cloud.billing_refuses = "Cloud Billing API has not been used: enable it"
        with pytest.raises(ProviderError, match="enable it"):
            await case.provider.list_prices(TODAY)


async def test_a_catalogue_in_another_currency_is_refused(tmp_path: Path) -> None:
    async with gcp_case(tmp_path) as case:
        core = "A2 Instance Core running in Americas"
        case.fake.cloud.skus = [sku(core, "OnDemand", 31_611_000, currency="JPY")]
        with pytest.raises(ProviderError, match="answers in JPY, not in USD"):
            await case.provider.list_prices(TODAY)


def test_an_older_answer_does_not_hide_a_newer_table() -> None:
    old = FreshPrice(
        cloud="aws",
        region="us-east-1",
        name="g5.xlarge",
        usd_per_hour=9.0,
        as_of=date(2020, 1, 1),
        source="AWS price list",
    )
    book = replace(open_book(None), fresh=keyed([old]))
    assert book.price("aws", "us-east-1", "g5.xlarge").usd_per_hour == pytest.approx(1.006)
