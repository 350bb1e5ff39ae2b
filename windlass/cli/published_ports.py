"""`-p [LOCAL:]PORT` of commands that launch a task and watch it: ports of this machine lead to it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.network import is_loopback
from windlass.cli.output.text import notice
from windlass.sdk.client import Client

_METAVAR = "[LOCAL:]PORT"
_HELP = "Lead a port of this machine to a TCP port of the task while it is watched."
PublishOption = Annotated[
    list[str] | None, typer.Option("-p", "--publish", metavar=_METAVAR, help=_HELP)
]
LongPublishOption = Annotated[
    list[str] | None, typer.Option("--publish", metavar=_METAVAR, help=_HELP)
]
"""Of commands whose `-p` is something else."""


def published_ports(words: Sequence[str], config: Mapping[str, Any]) -> dict[int, int]:
    """Ports of this machine, each with the task's. Raises InvalidArgument for those that the configuration lacks."""
    if not words:
        return {}
    from windlass.sdk.tunnel import local_ports

    ports = local_ports(words)
    environment = config.get("environment")
    listed = environment.get("proxy_ports") if isinstance(environment, Mapping) else None
    entries = [one for one in listed or () if isinstance(one, Mapping)]
    served = {one.get("proxy_port") for one in entries if one.get("proxy_tcp")}
    for port in ports.values():
        if port not in served:
            raise InvalidArgument(
                f"port {port}: the configuration does not name this port: add "
                f"--config 'environment.proxy_ports=[{{proxy_port: {port}, proxy_tcp: true}}]'"
            )
    return ports


@contextmanager
def published(client: Client, task_id: str, ports: Mapping[int, int]) -> Iterator[None]:
    """While the block runs."""
    if not ports:
        yield
        return
    from windlass.sdk.tunnel import tunnels

    services = {local: f"{task_id}:{port}" for local, port in ports.items()}
    if warning := same_ports(client.session.url, ports):
        notice(f"warning: {warning}")
    with tunnels(client.session, services, notice):
        yield


def same_ports(master: str, ports: Mapping[int, int]) -> str:
    """A warning of ports that this program takes from a task, if that may run on this machine, as its master does."""
    taken = ", ".join(str(local) for local, port in ports.items() if local == port)
    if not taken or not is_loopback(urlsplit(master).hostname or ""):
        return ""
    return (
        f"port {taken} of this machine leads to the task from now on: a task that runs on this machine, too, "
        "cannot listen there; choose another one here, as LOCAL:PORT"
    )
