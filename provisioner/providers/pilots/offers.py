"""What a queue of a batch system sells to an elastic pool: nodes for a time. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from provisioner.batch.base import Queue, SiteFacts
from provisioner.batch.job_files import JobFiles, JobShape
from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import LaunchIntent
from provisioner.providers.errors import Refusal
from provisioner.providers.pilots.times import MARGIN_S, STAGGER, WALLTIME_S
from provisioner.types import Market, Offer, OfferKey, Quota
from windlass.base.durations import format_duration

BOOT_S = 10.0
BOOT_DEADLINE_S = 900.0
"""How long a job may run until its agents have joined: the file system of a site may be slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOptions:
    """What one pool takes from one queue."""

    pool: str
    files: JobFiles
    system: str = "slurm"
    """slurm or pbs."""
    queue: str = ""
    """Empty: the site's default."""
    slots_per_node: int | None = None
    """None: the GPUs that most of its nodes have; of nodes without, 1."""
    slot_type: str = ""
    """cuda, rocm or cpu. Empty: cuda if its nodes have GPUs, else cpu."""
    gpu_type: str = ""
    asks_for_gpus: bool = True
    """False: the site does not know GPUs."""
    cpus_per_slot: int | None = None
    memory_mib_per_slot: int | None = None
    walltimes_s: tuple[float, ...] = ()
    """In the order in which they are tried. Empty: what the queue gives, 4 hours at the most."""
    usd_per_slot_hour: float = 0.0
    arguments: tuple[str, ...] = ()
    max_queued: int = 100
    """Nodes that are asked for and have not come."""
    queue_deadline_s: float | None = None


def queue_of(options: PilotOptions, site: SiteFacts | None) -> Queue | None:
    """None: the site does not have it, or is not known yet."""
    return None if site is None else site.queue(options.queue)


def offers_of(
    provider: str, options: PilotOptions, site: SiteFacts | None, queued: int
) -> Iterator[tuple[Offer, float]]:
    """One for each walltime, with it. `queued`: nodes of the pool that have not come yet.

    A queue that the site does not have is for sale all the same: who waits for it is told what the site says.
    """
    queue = queue_of(options, site)
    slots = slots_of(options, queue)
    if slots is None:
        return
    name = queue.name if queue is not None else options.queue
    left = Quota(
        name=f"max_queued of pool '{options.pool}'",
        left=max(0, options.max_queued - queued),
        each=1,
    )
    for number, walltime_s in enumerate(_walltimes(options, queue)):
        what = options.gpu_type or _slot_type(options, queue)
        length = format_duration(timedelta(seconds=walltime_s))
        offer = Offer(
            key=OfferKey(
                provider=provider,
                region=name,
                instance_type=f"{what}-{slots}x{length}",
                market=Market.QUEUED,
            ),
            slots=slots,
            usd_per_hour=options.usd_per_slot_hour * slots,
            boot_s=BOOT_S + number,  # of equal price the first is preferred
            boot_deadline_s=BOOT_DEADLINE_S,
            lifetime_s=walltime_s * (1 - STAGGER) - MARGIN_S,
            queue_deadline_s=options.queue_deadline_s,
            gpu_model=options.gpu_type,
            cpus=None if queue is None else queue.cpus_per_node,
            quota=left,
            ends_together=True,
            most_together=None if queue is None else queue.max_nodes or queue.nodes or None,
        )
        yield offer, walltime_s


def sold_as(
    provider: str, pools: Iterable[PilotOptions], site: SiteFacts | None, intent: LaunchIntent
) -> tuple[PilotOptions, float]:
    """What sells it now, and for how long. Raises Refusal."""
    for options in pools:
        for offer, walltime_s in offers_of(provider, options, site, 0):
            if options.pool == intent.pool and offer.key == intent.offer.key:
                return options, walltime_s
    name = intent.offer.key.instance_type
    raise Refusal(BlockKind.UNSUPPORTED, f"{name} is not for sale any more")


def slots_of(options: PilotOptions, queue: Queue | None) -> int | None:
    """Of one node. None: only the site knows."""
    if options.slots_per_node is not None:
        return options.slots_per_node
    if not options.asks_for_gpus:
        return 1
    if queue is None:
        return None
    return queue.gpus_per_node if _slot_type(options, queue) != "cpu" and queue.gpus_per_node else 1


def shape_of(
    options: PilotOptions, offer: Offer, walltime_s: float, nodes: int, queue: Queue | None
) -> JobShape:
    """What a job of that offer asks for, but for its own share of `STAGGER`."""
    gpus = _slot_type(options, queue) != "cpu"
    cpus = options.cpus_per_slot or (None if gpus else 1)
    memory = options.memory_mib_per_slot
    return JobShape(
        system=options.system,
        queue=offer.key.region,
        nodes=nodes,
        slots_per_node=offer.slots,
        gpus_per_node=offer.slots if gpus else 0,
        slot_type=_slot_type(options, queue),
        gpu_type=options.gpu_type if gpus else "",
        asks_for_gpus=options.asks_for_gpus,
        cpus_per_node=None if cpus is None else cpus * offer.slots,
        memory_mib_per_node=None if memory is None else memory * offer.slots,
        walltime_s=walltime_s,
        arguments=options.arguments,
    )


def staggered(shape: JobShape, token: str) -> JobShape:
    """The same for the same launch. Whole minutes, for Slurm counts those."""
    if shape.walltime_s is None:
        return shape
    share = int(hashlib.sha256(token.encode()).hexdigest()[:8], 16) / 0x1_0000_0000
    minutes = -(-shape.walltime_s * (1 - STAGGER * share) // 60)
    return replace(shape, walltime_s=max(60.0, minutes * 60.0))


def _walltimes(options: PilotOptions, queue: Queue | None) -> Sequence[float]:
    limit = None if queue is None else queue.max_walltime_s
    if not options.walltimes_s:
        given = None if queue is None else queue.default_walltime_s
        return (min(given or WALLTIME_S, limit or WALLTIME_S),)
    allowed = [wanted for wanted in options.walltimes_s if limit is None or wanted <= limit]
    return allowed or [limit or WALLTIME_S]


def _slot_type(options: PilotOptions, queue: Queue | None) -> str:
    if options.slot_type:
        return options.slot_type
    return "cuda" if queue is None or queue.gpus_per_node else "cpu"
