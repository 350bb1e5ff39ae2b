"""Which zones a cluster on AWS uses, and what is refused because they do not sell it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.deploy.test_cloud_rendering import config_of, plan_of
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.zones import Zones, zone_problems
from windlass.deploy.cloud.parsing import parse

ABC = frozenset({"us-west-2a", "us-west-2b", "us-west-2c"})
ZONES = Zones(network=ABC, sold={"m6i.large": ABC, "m5.xlarge": ABC, "g4dn.xlarge": ABC})


def options(**given: Any) -> AwsOptions:
    return parse(AwsOptions, {"cluster_id": "lab", "region": "us-west-2", **given}, "options")


def sold(name: str, *zones: str) -> Zones:
    return replace(ZONES, sold={**ZONES.sold, name: frozenset(zones)})


def told(zones: Zones, **given: Any) -> list[str]:
    return list(zone_problems(options(**given), zones))


def test_one_zone_that_sells_a_type_is_enough() -> None:
    assert told(ZONES) == []
    assert told(sold("m6i.large", "us-west-2c")) == []
    assert told(sold("g4dn.xlarge", "us-west-2b")) == []


def test_a_master_that_no_zone_of_the_network_sells_is_refused() -> None:
    assert told(sold("m6i.large", "us-west-2d")) == [
        "--master-instance-type: of us-west-2a, us-west-2b, us-west-2c none has m6i.large: choose another type"
    ]


def test_a_disk_stays_where_it_is() -> None:
    zones = replace(sold("m6i.large", "us-west-2c"), disk="us-west-2a")
    assert told(zones) == [
        "--master-instance-type: the master's disk is in us-west-2a, which has no m6i.large (us-west-2c has it): "
        "choose another type"
    ]


def test_machines_of_pools_need_a_zone_among_their_subnets() -> None:
    zones = replace(sold("g4dn.xlarge", "us-west-2c"), subnets={"subnet-0a": "us-west-2a"})
    (one,) = told(zones, agent_subnet_id=["subnet-0a"])
    assert one == (
        "--compute-agent-instance-type: of us-west-2a none has g4dn.xlarge; us-west-2c has it: choose another type or "
        "add a subnet"
    )
    zones = replace(zones, subnets={"subnet-0a": "us-west-2a", "subnet-0c": "us-west-2c"})
    assert told(zones, agent_subnet_id=["subnet-0a", "subnet-0c"]) == []


def test_pools_buy_in_every_subnet() -> None:
    for given in ({}, {"deployment_type": "efs"}, {"agent_subnet_id": ["subnet-0a", "subnet-0c"]}):
        aux, compute = (
            pool["provider"] for pool in config_of(plan_of("aws", **given))["resource_pools"]
        )
        assert aux["subnets"] == compute["subnets"] == ["subnet-0a1b", "subnet-0c2d"]
        assert "subnet_id" not in compute["network_interface"]
    plan = plan_of("aws", agent_subnet_id=["subnet-0a", "subnet-0c"])
    assert plan.variables["agent_subnet_ids"] == ["subnet-0a", "subnet-0c"]
