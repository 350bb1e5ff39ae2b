"""What EC2 says of spot prices counts, unless no machine costs that."""

from __future__ import annotations

import pytest

from provisioner.money.price_book import open_book
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.catalogue import Catalogue, Subnet
from provisioner.providers.aws.offers import offers_of
from tests.fakes.pool_machines import aws_machines

ZONE = "us-east-1a"
OPTIONS = aws_machines(instance_type="g5.xlarge", markets=["spot"])


@pytest.mark.parametrize(
    ("said", "counts", "origin"),
    [
        (0.41, 0.41, "EC2's spot prices"),
        (
            410.0,
            1.006,
            "EC2's spot price of 410 USD per hour for g5.xlarge in us-east-1 is not believed",
        ),
        (0.0000041, 1.006, "is not believed"),
    ],
)
def test_a_spot_price_that_cannot_be_is_not_used(said: float, counts: float, origin: str) -> None:
    catalogue = Catalogue(
        default_subnets={ZONE: Subnet(id="s-1", zone=ZONE, network="n-1")},
        spot_usd={(OPTIONS.section.instance_type, ZONE): said},
    )
    account = AwsAccount(name="aws-us-east-1", region="us-east-1")
    (offer,) = offers_of(account, OPTIONS, catalogue, open_book(None), now=0.0)
    assert offer.usd_per_hour == pytest.approx(counts)
    assert origin in offer.price_origin
