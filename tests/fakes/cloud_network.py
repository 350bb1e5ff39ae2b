"""The network of one machine of a cloud: its metadata service is at the real address, and on its own loopback are some
ports of the loopback here, such as the master's."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tests.fakes.ec2_metadata import ec2_metadata
from tests.fakes.gce.metadata import gce_metadata
from tests.namespaces import METADATA, Namespace, forwarded, machine_apart

LOOPBACK = "127.0.0.1"


@contextmanager
def machine_network(machine: str, reached: Sequence[int]) -> Iterator[Namespace]:
    """`reached`: ports. The machine has a role."""
    with ExitStack() as stack:
        namespace, cloud = stack.enter_context(machine_apart())
        service = cloud.run(lambda: socket.create_server((METADATA, 80), backlog=64))
        if machine.startswith("i-"):
            ec2 = stack.enter_context(ec2_metadata(service))
            ec2.only = machine
            ec2.answers[machine, "instance-id"] = machine
            ec2.add_role(machine, "agents")
        else:
            gce = stack.enter_context(gce_metadata(service))
            gce.only = machine
            gce.set(machine, "instance/name", machine)
            gce.add_account(machine)
        for port in reached:
            stack.enter_context(_led_here(namespace, port))
        yield namespace


def _led_here(namespace: Namespace, port: int) -> AbstractContextManager[None]:
    # A socket stays in the namespace that it was made in.
    there = namespace.run(lambda: socket.create_server((LOOPBACK, port), backlog=64))
    return forwarded(there, lambda: socket.create_connection((LOOPBACK, port)))
