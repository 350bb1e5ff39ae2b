"""A machine of a cloud as network namespaces: the metadata service is at its real address.

    machine 10.9.0.1 ── 10.9.0.2 the cloud, with 169.254.169.254
            10.8.0.1 ── 10.8.0.2 a container with a network of its own

`machine`: whoever uses it is in a network namespace of its own already (`unshare --net`), which is the machine.
`machine_apart`: it has another one, without a container.

`behind_nat`: two machines and their gateway, all of them namespaces apart. What they open goes out of their site, and
nothing is opened from outside.

    outside 10.6.0.1 ── 10.6.0.2 gateway 10.7.0.1 ── 10.7.0.2 and 10.7.0.3
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

METADATA = "169.254.169.254"
OUTSIDE = "10.6.0.1"
SITE = ("10.7.0.2", "10.7.0.3")
T = TypeVar("T")


def works() -> bool:
    """Whether network namespaces can be made and set up here."""
    made = ["unshare", "--net", "sh", "-c", "ip link set lo up && ip rule add pref 9 nop"]
    try:
        return subprocess.run(made, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def nat_works() -> bool:
    """Whether a gateway with NAT can be made here."""
    if os.geteuid() != 0 or not works() or shutil.which("iptables") is None:
        return False
    script = "ip link add lan type bridge && iptables -t nat -A POSTROUTING -j MASQUERADE"
    made = subprocess.run(
        ["unshare", "--net", "sh", "-c", script], capture_output=True, check=False
    )
    return made.returncode == 0


class Namespace:
    """Lives as long as its process, which ends with the one that made it, however that ends."""

    def __init__(self) -> None:
        # It says so once it is in a namespace of its own.
        self._process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self.pid = self._process.pid
        self.sh("ip link set lo up")

    def sh(self, script: str) -> None:
        subprocess.run([*self.enter, "sh", "-ec", script], check=True)

    @property
    def enter(self) -> tuple[str, ...]:
        """What to put before a command that is to run in it."""
        return ("nsenter", "-t", str(self.pid), "--net")

    def run(self, work: Callable[[], T]) -> T:
        """Its result. Sockets that it makes are of this namespace."""
        found: list[T] = []
        failed: list[BaseException] = []

        def there() -> None:
            descriptor = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
                found.append(work())
            except BaseException as error:  # noqa: BLE001 - raised where it was asked for
                failed.append(error)
            finally:
                os.close(descriptor)

        thread = threading.Thread(target=there)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    def processes(self) -> list[psutil.Process]:
        """All that are in it."""
        own = Path(f"/proc/{self.pid}/ns/net").readlink()
        found = []
        for process in psutil.process_iter():
            with suppress(OSError):
                if Path(f"/proc/{process.pid}/ns/net").readlink() == own:
                    found.append(process)
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def end_all(self) -> None:
        """With whatever still runs in it."""
        left = [process for process in self.processes() if process.pid != self.pid]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=10)
        self.end()


@contextmanager
def machine_apart() -> Iterator[tuple[Namespace, Namespace]]:
    """The machine, and its cloud. What still runs on the machine ends with it."""
    with ExitStack() as stack:
        made = Namespace()
        stack.callback(made.end_all)
        cloud = Namespace()
        stack.callback(cloud.end)
        link(made.sh, cloud, 9)
        _lead_to_metadata(made.sh, cloud)
        yield made, cloud


@contextmanager
def machine() -> Iterator[tuple[Namespace, Namespace]]:
    """The cloud, and a container."""
    cloud, container = Namespace(), Namespace()
    try:
        _sh("ip link set lo up")
        link(_sh, cloud, 9)
        link(_sh, container, 8)
        _lead_to_metadata(_sh, cloud)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        Path("/proc/sys/net/ipv4/conf/all/rp_filter").write_text("1")  # as many images have it
        yield cloud, container
    finally:
        cloud.end()
        container.end()


@dataclass(frozen=True)
class Site:
    outside: Namespace
    """At `OUTSIDE`, with a route to the machines."""
    gateway: Namespace
    machines: tuple[Namespace, ...]
    """At the addresses `SITE`."""

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Connections through the gateway end, and there are no new ones."""
        rule = "FORWARD -p tcp -j REJECT --reject-with tcp-reset"
        self.gateway.sh(f"iptables -I {rule}")
        try:
            yield
        finally:
            self.gateway.sh(f"iptables -D {rule}")


@contextmanager
def behind_nat() -> Iterator[Site]:
    """What still runs in its namespaces ends with them."""
    with ExitStack() as stack:
        outside, gateway = Namespace(), Namespace()
        stack.callback(gateway.end)
        stack.callback(outside.end_all)
        gateway.sh(f"ip link add wan type veth peer name eth0 netns {outside.pid}")
        outside.sh(f"ip addr add {OUTSIDE}/24 dev eth0 && ip link set eth0 up")
        outside.sh("ip route add 10.7.0.0/24 via 10.6.0.2")
        gateway.sh(
            """
            ip addr add 10.6.0.2/24 dev wan && ip link set wan up
            ip link add lan type bridge && ip addr add 10.7.0.1/24 dev lan && ip link set lan up
            echo 1 > /proc/sys/net/ipv4/ip_forward
            iptables -t nat -A POSTROUTING -o wan -j MASQUERADE
            iptables -A FORWARD -i lan -j ACCEPT
            iptables -A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
            iptables -A FORWARD -j REJECT --reject-with icmp-admin-prohibited
            """
        )
        machines = []
        for number, address in enumerate(SITE):
            made = Namespace()
            stack.callback(made.end_all)
            gateway.sh(f"ip link add m{number} type veth peer name eth0 netns {made.pid}")
            gateway.sh(f"ip link set m{number} master lan up")
            made.sh(f"ip addr add {address}/24 dev eth0 && ip link set eth0 up")
            made.sh("ip route add default via 10.7.0.1")
            machines.append(made)
        yield Site(outside, gateway, tuple(machines))


@contextmanager
def forwarded(at: socket.socket, connect: Callable[[], socket.socket]) -> Iterator[None]:
    """What is opened at this listening socket is led to a connection of its own."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), connect() as there:
                back = threading.Thread(target=_pass_on, args=(there, self.request), daemon=True)
                back.start()
                _pass_on(self.request, there)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(at.getsockname(), Connection, bind_and_activate=False)
    server.socket.close()
    server.socket = at
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


def link(sh: Callable[[str], None], there: Namespace, net: int) -> None:
    """`sh`: runs a script on the machine, 10.`net`.0.1, by which `there`, 10.`net`.0.2, goes to all others."""
    sh(f"ip link add v{net} type veth peer name eth0 netns {there.pid}")
    sh(f"ip addr add 10.{net}.0.1/24 dev v{net} && ip link set v{net} up")
    there.sh(f"ip addr add 10.{net}.0.2/24 dev eth0 && ip link set eth0 up")
    there.sh(f"ip route add default via 10.{net}.0.1")


def _lead_to_metadata(sh: Callable[[str], None], cloud: Namespace) -> None:
    cloud.sh(f"ip addr add {METADATA}/32 dev lo")
    sh(f"ip route add {METADATA} via 10.9.0.2")


def _sh(script: str) -> None:
    subprocess.run(["sh", "-ec", script], check=True)
