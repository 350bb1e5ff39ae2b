"""What machines cost on demand, by AWS's price list. Spot prices are in the catalogue, from EC2 itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from provisioner.money.fresh_prices import FreshPrice
from provisioner.providers.aws.client import AwsClient
from provisioner.providers.aws.offers import CLOUD
from windlass.base.formats.json_types import JsonMapping

SOURCE = "AWS price list"
_PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
"""Machines as we launch them."""


async def list_prices(
    client: AwsClient, region: str, instance_types: Iterable[str], today: date
) -> Sequence[FreshPrice]:
    """Raises AwsError, OSError."""
    found = []
    for name in sorted(set(instance_types)):
        wanted = {**_PLAIN, "instanceType": name, "regionCode": region}
        pages = client.pages(
            "pricing",
            "get_products",
            ServiceCode="AmazonEC2",
            Filters=[{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()],
        )
        # Of several the dearest: none is cheaper by mistake.
        prices = [usd async for page in pages for usd in _on_demand(page, name)]
        if prices:
            found.append(
                FreshPrice(
                    cloud=CLOUD,
                    region=region,
                    name=name,
                    usd_per_hour=max(prices),
                    as_of=today,
                    source=SOURCE,
                )
            )
    return found


def _on_demand(page: JsonMapping, name: str) -> Iterator[float]:
    """Of each product of a page, which is a document of its own. What is no price by the hour in USD is left out."""
    for text in page.get("PriceList", ()):
        product = json.loads(text)
        if product.get("product", {}).get("attributes", {}).get("instanceType") != name:
            continue
        for term in product.get("terms", {}).get("OnDemand", {}).values():
            for dimension in term.get("priceDimensions", {}).values():
                usd = float(dimension.get("pricePerUnit", {}).get("USD", 0))
                if dimension.get("unit") == "Hrs" and usd > 0:
                    yield usd
