"""How ports of a tunnel are written, and what is said of those that lead nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.base.errors import InvalidArgument, NotFound
from windlass.sdk.session import Session
from windlass.sdk.tunnel import local_ports, services_of


class Listed(Session):
    """A master with one running task."""

    def get(self, path: str, query: Any = None) -> dict[str, Any]:
        assert path == "/api/v1/tasks"
        ports = [
            {"port": 22, "proxyTcp": True, "serviceId": "t-1:22"},
            {"port": 80, "proxyTcp": False, "serviceId": "t-1:80"},
        ]
        return {"allocationIdToSummary": {"t-1.1": {"taskId": "t-1", "proxyPorts": ports}}}


def test_ports() -> None:
    assert local_ports(["22", "8022:22", "80"]) == {22: 22, 8022: 22, 80: 80}


@pytest.mark.parametrize("word", ["", "a", "0", "65536", "1:", ":", "1:2:3", "-1", "²"])
def test_what_is_no_port(word: str) -> None:
    with pytest.raises(InvalidArgument, match="LOCAL:PORT"):
        local_ports([word])


def test_one_local_port_leads_to_one_place() -> None:
    with pytest.raises(InvalidArgument, match="port 22 of this machine is named twice"):
        local_ports(["22", "22:80"])


def test_only_ports_that_the_task_serves_by_tcp_have_tunnels() -> None:
    session = Listed("http://master:8080")
    assert services_of(session, "t-1", [22]) == {22: "t-1:22"}
    with pytest.raises(
        InvalidArgument, match=r"port 23 is not .*TCP ports it serves: 22.*proxy_tcp"
    ):
        services_of(session, "t-1", [22, 23])
    with pytest.raises(
        InvalidArgument, match="served as HTTP, at http://master:8080/proxy/t-1:80/"
    ):
        services_of(session, "t-1", [80])
    with pytest.raises(NotFound, match="running task 't-2'"):
        services_of(session, "t-2", [22])
