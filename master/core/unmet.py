"""Why no machine of a pool is what a request asks for, and what would be. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from master.core.machines import MachineFacts, Requirements
from master.core.scheduler.unfit_agents import machines_for

Kind = tuple[int, MachineFacts]
"""Slots of an agent, and what it is."""
MOST_NAMED = 6


def unmet(pool: str, requires: Requirements, slots: int, kinds: Collection[Kind]) -> str | None:
    """None if some agent that the pool has or could have is what is asked for; else what nearest it has."""
    if not requires.is_picky or any(_meets(requires, slots, kind) for kind in kinds):
        return None
    asked = f"Requested {requires.describe()}; pool '{pool}' has "
    if not kinds:
        return f"{asked}no machine whose GPU is known"
    return asked + (_nearest(requires, slots, kinds) or "no such machine")


def _meets(requires: Requirements, slots: int, kind: Kind) -> bool:
    size, facts = kind
    return requires.are_met_by(facts, machines_for(slots, size))


def _nearest(requires: Requirements, slots: int, kinds: Collection[Kind]) -> str:
    """What would do if one wish were given up; if no single one helps, what there is."""
    for without, key in _relaxed(requires):
        able = [kind for kind in kinds if _meets(without, slots, kind)]
        if able:
            return f"{_offered(key, slots, able)}: {_way_out(key)}"
    return f"{_models(kinds)}: give up several of these wishes, or use another pool"


def _relaxed(requires: Requirements) -> Iterator[tuple[Requirements, str]]:
    yield replace(requires, max_usd_per_hour=None), "max_usd_per_hour"
    yield replace(requires, min_gpu_memory_mib=0), "min_gpu_memory"
    yield replace(requires, markets=frozenset()), "markets"
    yield replace(requires, placement_group=False), "placement_group"
    yield replace(requires, gpu_models=frozenset()), "gpu_models"


def _offered(key: str, slots: int, kinds: Collection[Kind]) -> str:
    if key == "max_usd_per_hour":
        least = min(facts.usd_per_hour * machines_for(slots, size) for size, facts in kinds)
        return f"nothing below {least:.2f} USD per hour"
    if key == "min_gpu_memory":
        known = [facts.gpu_memory_mib for _, facts in kinds if facts.gpu_memory_mib is not None]
        if not known:
            return "no such GPU whose memory is known"
        return f"no such GPU with more than {max(known) / 1024:g} GiB"
    if key == "markets":
        sold = sorted({facts.market for _, facts in kinds if facts.market is not None})
        return f"such machines only as {' and '.join(sold)}"
    if key == "placement_group":
        return "no placement group for them"
    return _models(kinds)


def _models(kinds: Collection[Kind]) -> str:
    models = sorted({facts.gpu_model for _, facts in kinds if facts.gpu_model})
    if not models:
        return "no machine whose GPU model is known"
    more = f" and {len(models) - MOST_NAMED} more" if len(models) > MOST_NAMED else ""
    return f"GPUs {', '.join(models[:MOST_NAMED])}{more}"


def _way_out(key: str) -> str:
    if key == "max_usd_per_hour":
        return "raise resources.max_usd_per_hour"
    if key == "placement_group":
        return "leave out resources.placement_group, or request one agent's slots"
    return f"change resources.{key}, or use another pool"
