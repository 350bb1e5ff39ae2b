"""What new work may not say of the ports that the proxy leads to, though a stored configuration may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from master.core.expconf.environment import ProxyPort

MAX_PORTS = 100
"""Of one task. Each is an entry of every list of tasks, and a service that the proxy knows."""


def proxied_port_problems(ports: Sequence[ProxyPort], *, root: str) -> Iterator[str]:
    """`root`: the path of the section."""
    where = f"{root}.proxy_ports"
    if len(ports) > MAX_PORTS:
        yield (
            f"{where}: {len(ports)} ports, more than the {MAX_PORTS} that one task may have: "
            "serve several things on one port, by their paths"
        )
    first: dict[int, int] = {}
    for number, port in enumerate(islice(ports, MAX_PORTS)):
        earlier = first.setdefault(port.proxy_port, number)
        if earlier != number:
            yield (
                f"{where}[{number}].proxy_port: {port.proxy_port} is that of proxy_ports[{earlier}], too: "
                "leave one of them out, or serve on another port"
            )
    defaults = [number for number, port in enumerate(ports) if port.default_service_id]
    for number in defaults[1:2]:
        yield (
            f"{where}[{number}].default_service_id: true, as in proxy_ports[{defaults[0]}]: "
            "only one port can be reached by the task's id alone"
        )
