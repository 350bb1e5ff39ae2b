"""A machine of a cloud as network namespaces: the metadata service is at its real address.

    machine 10.9.0.1 ── 10.9.0.2 the cloud, with 169.254.169.254
            10.8.0.1 ── 10.8.0.2 a container with a network of its own

Whoever uses this is in a network namespace of its own already (`unshare --net`), which is the machine.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

METADATA = "169.254.169.254"
T = TypeVar("T")


def works() -> bool:
    """Whether network namespaces can be made and set up here."""
    made = ["unshare", "--net", "sh", "-c", "ip link set lo up && ip rule add pref 9 nop"]
    try:
        return subprocess.run(made, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class Namespace:
    """Lives as long as its process."""

    def __init__(self) -> None:
        # It says so once it is in a namespace of its own.
        self._process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self.pid = self._process.pid
        self.sh("ip link set lo up")

    def sh(self, script: str) -> None:
        subprocess.run(["nsenter", "-t", str(self.pid), "--net", "sh", "-ec", script], check=True)

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

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def machine() -> Iterator[tuple[Namespace, Namespace]]:
    """The cloud, and a container."""
    cloud, container = Namespace(), Namespace()
    try:
        _sh("ip link set lo up")
        for there, net in ((cloud, 9), (container, 8)):
            _sh(f"ip link add v{net} type veth peer name eth0 netns {there.pid}")
            _sh(f"ip addr add 10.{net}.0.1/24 dev v{net} && ip link set v{net} up")
            there.sh(f"ip addr add 10.{net}.0.2/24 dev eth0 && ip link set eth0 up")
            there.sh(f"ip route add default via 10.{net}.0.1")
        cloud.sh(f"ip addr add {METADATA}/32 dev lo")
        _sh(f"ip route add {METADATA} via 10.9.0.2")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        Path("/proc/sys/net/ipv4/conf/all/rp_filter").write_text("1")  # as many images have it
        yield cloud, container
    finally:
        cloud.end()
        container.end()


def _sh(script: str) -> None:
    subprocess.run(["sh", "-ec", script], check=True)
