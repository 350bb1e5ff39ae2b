"""The network of one machine of a cloud: its metadata service is at the real address, and on its own loopback are some
ports of the loopback here, such as the master's."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from tests.fakes.ec2_metadata import ec2_metadata
from tests.fakes.gce.metadata import gce_metadata
from tests.namespaces import METADATA, Namespace, machine_apart

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
            stack.enter_context(_forwarded(namespace, port))
        yield namespace


@contextmanager
def _forwarded(namespace: Namespace, port: int) -> Iterator[None]:
    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), socket.create_connection((LOOPBACK, port)) as here:
                back = threading.Thread(target=_pass_on, args=(here, self.request), daemon=True)
                back.start()
                _pass_on(self.request, here)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server((LOOPBACK, port), Connection, bind_and_activate=False)
    server.socket.close()
    # A socket stays in the namespace that it was made in.
    server.socket = namespace.run(lambda: socket.create_server((LOOPBACK, port), backlog=64))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
