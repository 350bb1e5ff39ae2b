"""A master.yaml and what the world is like, as the simulator takes them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path

from master.config import ResolvedPool, load
from master.config.load import ROOT
from master.wiring.cloud_providers import expected_offers
from master.wiring.elastic import offers_and_stock
from provisioner.money.price_book import open_book
from provisioner.simulator.machines import Outage, Supply
from provisioner.simulator.replay import ClusterPlan, PoolPlan
from provisioner.simulator.work import WorkModel
from provisioner.types import Market, Offer
from windlass.base.errors import InvalidConfig

AGENTS = re.compile(r"(?P<pool>[^=]+)=(?P<count>[1-9]\d{0,5})x(?P<slots>[1-9]\d{0,5})")
MAX_AGENTS = 20_000
OUTAGE_COLUMNS = ("from_s", "until_s", "instance_type", "zone", "market")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What no master.yaml says."""

    agents: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Agents that are always there, by their slots, of pools without a provider."""
    outages: Sequence[Outage] = ()
    interruptions_per_hour: float = 0.0
    checkpoint_every_s: float = 1800.0
    checkpoint_s: float = 30.0
    restart_s: float = 60.0
    seed: int = 0


def cluster_plan(path: Path, world: World) -> ClusterPlan:
    """Raises InvalidConfig, also for a file without a pool that can be simulated; OSError."""
    try:
        config = load(path, overrides={})
    except InvalidConfig as error:
        problems = [problem.replace(ROOT, str(path), 1) for problem in error.problems]
        raise InvalidConfig(problems, what=error.what) from None
    pools = config.pools()
    elastic = [pool for pool in pools if pool.is_elastic]
    problems = _bad_agents(world.agents, pools)
    if not elastic and not world.agents:
        problems = [
            "resource_pools: no pool has a provider: say how many agents are there (--agents)"
        ]
    if problems:
        raise InvalidConfig(problems, what=str(path))
    book = open_book(None, config.prices.rules())
    offers, stock = offers_and_stock(elastic, book)
    for pool_name, more in expected_offers(elastic, book):
        offers.setdefault(pool_name, []).extend(more)
    simulated = [pool for pool in pools if pool.is_elastic or pool.name in world.agents]
    names = [pool.name for pool in simulated]
    default = config.default_compute_pool
    return ClusterPlan(
        pools=[
            PoolPlan(
                settings=pool.settings,
                scheduler=pool.scheduler,
                offers=[_interrupted(offer, world) for offer in offers.get(pool.name, ())],
                agents=world.agents.get(pool.name, ()),
                falls_back=replace(
                    pool.fall_back,
                    pools=tuple(name for name in pool.fall_back.pools if name in names),
                ),
            )
            for pool in simulated
        ],
        default_pool=default if default in names else names[0],
        supply=Supply(stock=stock, outages=world.outages),
        model=WorkModel(
            checkpoint_every_s=world.checkpoint_every_s,
            checkpoint_s=world.checkpoint_s,
            restart_s=world.restart_s,
        ),
        seed=world.seed,
        left_out=[
            f"work of pool {pool.name} does not fall back to {other}: no provider launches its agents, "
            f"and --agents does not say how many there are"
            for pool in simulated
            for other in pool.fall_back.pools
            if other not in names
        ],
    )


def read_agents(texts: Iterable[str]) -> Mapping[str, Sequence[int]]:
    """Of "POOL=COUNTxSLOTS" each. Raises InvalidConfig that names all bad ones."""
    agents: dict[str, list[int]] = {}
    problems = []
    for text in texts:
        match = AGENTS.fullmatch(text)
        if match is None or int(match["count"]) > MAX_AGENTS:
            problems.append(
                f"{text!r} is not POOL=COUNTxSLOTS, like rack=4x8 for 4 agents of 8 slots "
                f"(at most {MAX_AGENTS} agents)"
            )
            continue
        slots = [int(match["slots"])] * int(match["count"])
        agents.setdefault(match["pool"], []).extend(slots)
    if problems:
        raise InvalidConfig(problems, what="--agents")
    return agents


def _bad_agents(agents: Mapping[str, Sequence[int]], pools: Sequence[ResolvedPool]) -> list[str]:
    """What is wrong with agents that are said to be there."""
    known = {pool.name: pool for pool in pools}
    problems = []
    for name in agents:
        pool = known.get(name)
        if pool is None:
            there = ", ".join(known)
            problems.append(f"--agents: there is no resource pool {name!r} (there are: {there})")
        elif pool.is_elastic or pool.batch is not None:
            problems.append(f"--agents: pool {name!r} has a provider, which brings up its agents")
    return problems


def read_outages(path: Path) -> tuple[Outage, ...]:
    """A row for each time that offers are out of stock. Raises InvalidConfig that names the lines; OSError."""
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.DictReader(file)
        given = rows.fieldnames or ()
        problems = [
            f"line 1: column {name} is missing" for name in OUTAGE_COLUMNS[:2] if name not in given
        ]
        problems += [
            f"line 1: column {name!r} is unknown (known: {', '.join(OUTAGE_COLUMNS)})"
            for name in given
            if name not in OUTAGE_COLUMNS
        ]
        outages = []
        for row in rows if not problems else ():
            try:
                outages.append(_outage(row))
            except ValueError as error:
                problems.append(f"line {rows.line_num}: {error}")
    if problems:
        raise InvalidConfig(problems, what=f"outages {path}")
    return tuple(outages)


def _outage(row: dict[str, str | None]) -> Outage:
    times = []
    for column in OUTAGE_COLUMNS[:2]:
        try:
            times.append(float(row.get(column) or ""))
        except ValueError:
            raise ValueError(f"{column} {row.get(column)!r} is no number of seconds") from None
    begin, end = times
    if not (isfinite(begin) and begin < end):
        raise ValueError(f"until_s {end:g} must be after from_s {begin:g}")
    market = row.get("market") or ""
    if market and market not in tuple(Market):
        raise ValueError(f"market {market!r} is unknown (known: {', '.join(Market)})")
    return Outage(
        from_s=begin,
        until_s=end,
        instance_type=row.get("instance_type") or "",
        zone=row.get("zone") or "",
        market=market,
    )


def _interrupted(offer: Offer, world: World) -> Offer:
    """Spot machines are taken back as often as the world says; if it does not say, as their clouds' usually are."""
    if offer.key.market is not Market.SPOT or not world.interruptions_per_hour:
        return offer
    return replace(offer, interruptions_per_hour=world.interruptions_per_hour)
