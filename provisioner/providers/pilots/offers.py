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
from provisioner.sections.batch import BatchSection
from provisioner.types import Market, Offer, OfferKey, Quota
from windlass.base.formats.durations import format_duration

BOOT_S = 10.0
BOOT_DEADLINE_S = 900.0
"""How long a job may run until its agents have joined: the file system of a site may be slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOptions:
    """What one pool takes from one queue."""

    pool: str
    section: BatchSection
    files: JobFiles


def queue_of(options: PilotOptions, site: SiteFacts | None) -> Queue | None:
    """None: the site does not have it, or is not known yet."""
    return None if site is None else site.queue(options.section.where)


def offers_of(
    provider: str, options: PilotOptions, site: SiteFacts | None, queued: int
) -> Iterator[tuple[Offer, float]]:
    """One for each walltime, with it. `queued`: nodes of the pool that have not come yet.

    A queue that the site does not have is for sale all the same: who waits for it is told what the site says.
    """
    queue, section = queue_of(options, site), options.section
    slots = slots_of(section, queue)
    if slots is None:
        return
    name = queue.name if queue is not None else section.where
    left = Quota(
        name=f"max_queued of pool '{options.pool}'",
        left=max(0, section.max_queued - queued),
        each=1,
    )
    deadline = section.queue_deadline
    for number, walltime_s in enumerate(_walltimes(section, queue)):
        what = section.gpu_type or section.slot_type_in(queue)
        length = format_duration(timedelta(seconds=walltime_s))
        offer = Offer(
            key=OfferKey(
                provider=provider,
                region=name,
                instance_type=f"{what}-{slots}x{length}",
                market=Market.QUEUED,
            ),
            slots=slots,
            usd_per_hour=float(section.usd_per_slot_hour) * slots,
            boot_s=BOOT_S + number,  # of equal price the first is preferred
            boot_deadline_s=BOOT_DEADLINE_S,
            lifetime_s=walltime_s * (1 - STAGGER) - MARGIN_S,
            queue_deadline_s=None if deadline is None else deadline.total_seconds(),
            gpu_model=section.gpu_type,
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


def slots_of(section: BatchSection, queue: Queue | None) -> int | None:
    """Of one node. None: only the site knows."""
    if section.slots_per_node is not None:
        return section.slots_per_node
    if not section.gres_supported:
        return 1
    if queue is None:
        return None
    return (
        queue.gpus_per_node if section.slot_type_in(queue) != "cpu" and queue.gpus_per_node else 1
    )


def staggered(shape: JobShape, token: str) -> JobShape:
    """The same for the same launch. Whole minutes, for Slurm counts those."""
    if shape.walltime_s is None:
        return shape
    share = int(hashlib.sha256(token.encode()).hexdigest()[:8], 16) / 0x1_0000_0000
    minutes = -(-shape.walltime_s * (1 - STAGGER * share) // 60)
    return replace(shape, walltime_s=max(60.0, minutes * 60.0))


def _walltimes(section: BatchSection, queue: Queue | None) -> Sequence[float]:
    limit = None if queue is None else queue.max_walltime_s
    if not section.walltimes:
        given = None if queue is None else queue.default_walltime_s
        return (min(given or WALLTIME_S, limit or WALLTIME_S),)
    wanted = (each.total_seconds() for each in section.walltimes)
    allowed = [walltime_s for walltime_s in wanted if limit is None or walltime_s <= limit]
    return allowed or [limit or WALLTIME_S]
