"""From facts to what is set up: which folders, which address, which pools. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from master.hpc.site.facts import Association, Facts, Folder
from provisioner.batch.base import Queue

USUAL_WALLTIME_S = 4 * 3600.0
"""Where a queue has no time limit of its own by default: long enough for work, short enough to start soon."""
MEMORY_SHARE = 0.95
"""Of a node's memory that its GPUs share: the site keeps some for itself."""
FIRST_PORT, PORTS = 20000, 20000
MOST_QUEUED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPool:
    """One queue of the site."""

    name: str
    queue: Queue
    slots_per_node: int
    is_gpu: bool
    cpus_per_slot: int | None
    memory_mib_per_slot: int | None
    walltime_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    system: str
    shared: Folder | None
    """Where nodes see our files."""
    data: Folder | None
    """Where the database is."""
    address: str
    port: int
    python: str
    pools: tuple[PlannedPool, ...]
    refused: dict[str, str]
    """Queues that cannot be used, and why."""
    account: Association | None
    account_is_given: bool
    max_queued: int
    path: str = ""

    @property
    def payer(self) -> str:
        """The account to name; empty: the site's choice."""
        return self.account.name if self.account is not None and self.account_is_given else ""

    @property
    def default_pool(self) -> str:
        """For work with slots: GPUs, in the site's default queue if it has some."""
        ranked = sorted(self.pools, key=lambda p: (not p.is_gpu, not p.queue.is_default))
        return ranked[0].name if ranked else ""

    @property
    def aux_pool(self) -> str:
        """For work without slots: no GPU should wait for it."""
        ranked = sorted(self.pools, key=lambda p: (p.is_gpu, not p.queue.is_default))
        return ranked[0].name if ranked else ""


def plan_of(facts: Facts, *, uid: int, account: str = "", path: str = "") -> SitePlan:
    """`account`: that pays, if the user says so."""
    refused = {
        name: why
        for name, queue in facts.site.queues.items()
        if (why := facts.closed_to_us.get(name) or _why_not(queue))
    }
    pools = tuple(
        _pool(queue) for name, queue in sorted(facts.site.queues.items()) if name not in refused
    )
    paying = _paying(facts.accounts, account)
    most = MOST_QUEUED if paying is None or paying.max_submit is None else paying.max_submit
    return SitePlan(
        system=facts.system,
        shared=_shared(facts),
        data=_data(facts.local),
        address=facts.address,
        port=FIRST_PORT + uid % PORTS,
        python=facts.python,
        pools=pools,
        refused=refused,
        account=paying,
        account_is_given=bool(account),
        max_queued=max(1, min(MOST_QUEUED, most)),
        path=path,
    )


def _why_not(queue: Queue) -> str:
    if not queue.is_open:
        return "it is closed by the site"
    return "" if queue.nodes else "it has no nodes"


def _pool(queue: Queue) -> PlannedPool:
    gpus = queue.gpus_per_node
    memory = queue.memory_mib_per_node
    return PlannedPool(
        name=queue.name,
        queue=queue,
        slots_per_node=gpus or queue.cpus_per_node,
        is_gpu=bool(gpus),
        cpus_per_slot=max(1, queue.cpus_per_node // gpus) if gpus else None,
        memory_mib_per_slot=int(memory * MEMORY_SHARE) // gpus if gpus and memory else None,
        walltime_s=None if queue.default_walltime_s else _walltime(queue.max_walltime_s),
    )


def _walltime(most: float | None) -> float:
    return USUAL_WALLTIME_S if most is None else min(most, USUAL_WALLTIME_S)


def _paying(accounts: Sequence[Association], given: str) -> Association | None:
    """The user's default account first."""
    if given:
        return next((one for one in accounts if one.name == given), Association(name=given))
    return next((one for one in accounts if not one.partition), None)


def _shared(facts: Facts) -> Folder | None:
    """One that nodes see, or that the user named."""
    seen = [
        folder
        for folder in facts.shared
        if folder.is_network or facts.is_only_machine or folder.origin == "--dir"
    ]
    return next((folder for folder in seen if folder.is_usable), None)


def _data(local: Sequence[Folder]) -> Folder | None:
    """A local disk first, then memory, which a reboot empties. Never a network file system unless the user says so."""
    usable = [folder for folder in local if folder.is_usable and folder.has_locks]
    given = [folder for folder in usable if folder.origin == "--data-dir"]
    disks = [folder for folder in usable if not folder.is_network and not folder.is_memory]
    memory = [folder for folder in usable if folder.is_memory]
    return next(iter([*given, *disks, *memory]), None)
