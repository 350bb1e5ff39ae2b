"""GetProducts of AWS's price list, as it answers: documents in strings, prices in strings. And spot prices."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any

from provisioner.money.price_book import BUNDLED, PriceBook, read_table

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15"
SPOT_SHARE = 0.3
_BOOK = PriceBook(table=read_table(BUNDLED))


def with_spot_prices(content: bytes, region: str) -> bytes:
    """DescribeSpotPriceHistory of moto, where every machine costs 0.00001, with prices that can be."""
    root = ElementTree.fromstring(content)  # noqa: S314 - moto wrote it
    for item in root.iter(f"{{{NAMESPACE}}}item"):
        type_ = item.findtext(f"{{{NAMESPACE}}}instanceType") or ""
        usd = SPOT_SHARE * _BOOK.price("aws", region, type_).usd_per_hour
        item.find(f"{{{NAMESPACE}}}spotPrice").text = f"{usd:.6f}"  # type: ignore[union-attr]
    ElementTree.register_namespace("", NAMESPACE)
    return ElementTree.tostring(root)


def products(
    prices: Mapping[tuple[str, str], str], asked: Mapping[str, Any]
) -> tuple[str, list[Any], bytes]:
    """`prices`: (type, region) -> USD."""
    wanted = {each["Field"]: each["Value"] for each in asked.get("Filters", ())}
    found = [
        json.dumps(_product(type_, region, usd))
        for (type_, region), usd in prices.items()
        if wanted.get("instanceType", type_) == type_ and wanted.get("regionCode", region) == region
    ]
    said = {"FormatVersion": "aws_v1", "PriceList": found}
    return "200 OK", [("Content-Type", "application/x-amz-json-1.1")], json.dumps(said).encode()


def _product(type_: str, region: str, usd: str) -> dict[str, Any]:
    """A part of what it says of a machine: that which is read, and what must not be taken for it."""
    sku = "3DG6WFZ5QW4JAAHJ"
    on_demand = {
        "unit": "Hrs",
        "description": f"${usd} per On Demand Linux {type_} Instance Hour",
        "pricePerUnit": {"USD": usd},
    }
    upfront = {"unit": "Quantity", "pricePerUnit": {"USD": "5000"}}
    return {
        "product": {
            "productFamily": "Compute Instance",
            "sku": sku,
            "attributes": {
                "instanceType": type_,
                "regionCode": region,
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "capacitystatus": "Used",
                "preInstalledSw": "NA",
                "usagetype": f"BoxUsage:{type_}",
            },
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                f"{sku}.JRTCKXETXF": {
                    "priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": on_demand}
                }
            },
            "Reserved": {
                f"{sku}.38NPMPTW36": {"priceDimensions": {f"{sku}.38NPMPTW36.2TG2D8R56U": upfront}}
            },
        },
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
    }
