"""Where other nodes reach an agent that names its network."""

from __future__ import annotations

import pytest

from agent_bootstrap.interfaces import address_of
from windlass.base.errors import InvalidConfig

THERE = {"lo": "127.0.0.1", "ib0": "10.1.0.7", "eth1": "10.0.1.7", "eth0": "10.0.0.7"}


@pytest.mark.parametrize(
    ("interface", "address"),
    [("ib0", "10.1.0.7"), ("eth*", "10.0.0.7"), ("eth1", "10.0.1.7")],
)
def test_the_address_of_an_interface(interface: str, address: str) -> None:
    assert address_of(interface, THERE) == address


def test_an_interface_that_is_not_there() -> None:
    with pytest.raises(InvalidConfig) as caught:
        address_of("ib1", THERE)
    assert caught.value.problems == (
        'network_interface: this machine has no "ib1" with an IPv4 address (it has eth0, eth1, ib0, lo)',
    )


def test_interfaces_of_this_machine() -> None:
    assert address_of("lo") == "127.0.0.1"
