"""What `windlass master check --cloud` says of quotas: a line for each, with what it holds."""

from __future__ import annotations

from provisioner.providers.aws.quota_check import PoolQuota, by_quota, fits, too_small
from provisioner.providers.web_pages import without_page

P4D = PoolQuota(pool="big", instance_type="p4d.24xlarge", most=4, cpus=96)
P5 = PoolQuota(pool="big", instance_type="p5.48xlarge", most=4, cpus=192)
P3 = PoolQuota(pool="old", instance_type="p3.2xlarge", most=2, cpus=8)


def test_types_that_one_quota_counts_are_one_line() -> None:
    g5 = PoolQuota(pool="gpu", instance_type="g5.xlarge", most=1, cpus=4, is_spot=True)
    assert by_quota([P4D, P5, g5]) == {
        ("L-417A185B", "Running On-Demand P instances"): [P4D, P5],
        ("L-3819A6DF", "All G and VT Spot Instance Requests"): [g5],
    }
    assert fits(96, [P4D, P5]) == "96 vCPUs, enough for 1 x p4d.24xlarge or 0 x p5.48xlarge"


def test_pools_add_up_and_types_of_one_pool_share_its_maximum() -> None:
    assert too_small(4 * 192 + 16, [P4D, P5, P3]) == ""
    assert too_small(4 * 192 + 15, [P4D, P5, P3]) == (
        "4 x p5.48xlarge of pool big and 2 x p3.2xlarge of pool old need 784 vCPUs: ask AWS for more in Service "
        "Quotas, or lower max_instances"
    )


def test_a_type_that_is_not_known_counts_nothing() -> None:
    unknown = PoolQuota(pool="new", instance_type="p9.large", most=1, cpus=0)
    assert fits(64, [unknown]) == "64 vCPUs"
    assert too_small(64, [unknown]) == ""


def test_text_without_a_page_is_kept() -> None:
    assert without_page("a < b") == "a < b"
    assert without_page("Unable to parse:\nb'<html><body>no</body></html>'") == (
        "Unable to parse: a web page answered, not the cloud: is a proxy in between (HTTPS_PROXY)?"
    )
