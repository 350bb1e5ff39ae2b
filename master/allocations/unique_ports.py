"""Port numbers that no two live allocations of the cluster share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.base.errors import CapacityError

TRIAL_PORTS: Mapping[str, int] = {
    "DTRAIN_SSH_PORT": 12350,
    "INTER_TRAIN_PROCESS_COMM_PORT_1": 12360,
    "INTER_TRAIN_PROCESS_COMM_PORT_2": 12365,
    "C10D_PORT": 29400,
}
"""Where the processes of a trial meet: environment variable -> where the search for a free number begins."""
MAX_PORT = 65535


class UniquePorts:
    """Hands out the lowest free number at or above each base. Memory only: rows of `Port` keep it over restarts."""

    def __init__(self, reserved: Iterable[int] = ()) -> None:
        self._reserved = frozenset(reserved)
        self._held: dict[str, frozenset[int]] = {}
        self._taken: set[int] = set()
        self._lowest: dict[int, int] = {}
        """Base -> where the search goes on: nothing from the base up to there is free."""

    def take(self, allocation_id: str, bases: Mapping[str, int]) -> dict[str, int]:
        """The same answer when asked again for the same allocation is up to the caller: it stores the numbers.

        Raises CapacityError if one cannot be had; then none is held.
        """
        self.free(allocation_id)
        chosen: dict[str, int] = {}
        try:
            for name, base in bases.items():
                chosen[name] = self._take_one(name, base)
        except CapacityError:
            self._held[allocation_id] = frozenset(chosen.values())
            self.free(allocation_id)
            raise
        self._held[allocation_id] = frozenset(chosen.values())
        return chosen

    def take_another(self, allocation_id: str, name: str, above: int) -> int:
        """The allocation keeps what it has too: somebody else uses that. Raises CapacityError."""
        port = self._take_one(name, above + 1)
        self._held[allocation_id] = self._held.get(allocation_id, frozenset()) | {port}
        return port

    def _take_one(self, name: str, base: int) -> int:
        for port in range(self._lowest.get(base, base), MAX_PORT + 1):
            if port not in self._taken and port not in self._reserved:
                self._taken.add(port)
                self._lowest[base] = port + 1
                return port
        raise CapacityError(
            f"no port from {base} to {MAX_PORT} is left for {name}: {len(self._taken)} are held by live allocations, "
            f"{len(self._reserved)} are reserved (reserved_ports in master.yaml)"
        )

    def hold(self, allocation_id: str, ports: Iterable[int]) -> None:
        """After a restart: these are in use."""
        self._held[allocation_id] = frozenset(ports)
        self._taken |= self._held[allocation_id]

    def free(self, allocation_id: str) -> None:
        freed = self._held.pop(allocation_id, frozenset())
        self._taken -= freed
        for base, lowest in self._lowest.items():
            self._lowest[base] = min((p for p in freed if base <= p < lowest), default=lowest)
