"""A master.yaml and what the world is like, as the simulator takes them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from master.cloud_offers import expected_offers
from master.config import load
from master.config.load import ROOT
from master.core.fall_back import Rule
from master.elastic_pools import offers_and_stock, pool_settings
from provisioner.price_book import open_book
from provisioner.simulator.machines import Outage, Supply
from provisioner.simulator.replay import ClusterPlan, PoolPlan
from provisioner.simulator.work import WorkModel
from provisioner.types import Market, Offer
from windlass.base.errors import InvalidConfig

OUTAGE_COLUMNS = ("from_s", "until_s", "instance_type", "zone", "market")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What no master.yaml says."""

    outages: Sequence[Outage] = ()
    interruptions_per_hour: float = 0.0
    checkpoint_every_s: float = 1800.0
    checkpoint_s: float = 30.0
    restart_s: float = 60.0
    seed: int = 0


def cluster_plan(path: Path, world: World) -> ClusterPlan:
    """Raises InvalidConfig, also for a file without an elastic pool; OSError."""
    try:
        config = load(path, overrides={})
    except InvalidConfig as error:
        problems = [problem.replace(ROOT, str(path), 1) for problem in error.problems]
        raise InvalidConfig(problems, what=error.what) from None
    elastic = [pool for pool in config.pools() if pool.is_elastic]
    if not elastic:
        problem = "resource_pools: no pool has a provider: there is nothing to simulate"
        raise InvalidConfig([problem], what=str(path))
    book = open_book(None, config.prices.rules())
    offers, stock = offers_and_stock(elastic, book)
    for pool_name, more in expected_offers(elastic, book):
        offers.setdefault(pool_name, []).extend(more)
    names = [pool.name for pool in elastic]
    default = config.default_compute_pool
    return ClusterPlan(
        pools=[
            PoolPlan(
                settings=pool_settings(pool),
                scheduler=pool.scheduler,
                offers=[_interrupted(offer, world) for offer in offers.get(pool.name, ())],
                falls_back=Rule(
                    pools=tuple(name for name in pool.fall_back_to if name in names),
                    after_s=pool.fall_back_after_s,
                ),
            )
            for pool in elastic
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
            f"work of pool {pool.name} does not fall back to {other}, whose agents no provider launches"
            for pool in elastic
            for other in pool.fall_back_to
            if other not in names
        ],
    )


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
