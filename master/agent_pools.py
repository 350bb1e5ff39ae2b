"""Pools of master.yaml as the resource managers take them."""

from __future__ import annotations

from master.config import MasterConfig, ResolvedPool
from master.core.fall_back import Rule
from rm_backends.agents.options import PoolOptions


def pool_options(pool: ResolvedPool) -> PoolOptions:
    return PoolOptions(
        name=pool.name,
        scheduler=pool.scheduler,
        max_aux_containers_per_agent=pool.max_aux_containers_per_agent,
        agent_reconnect_wait_s=pool.agent_reconnect_wait_s,
        dynamic=pool.is_elastic or pool.batch is not None,
        dispatch=pool.batch is not None,
        kind=_kind(pool),
        description=pool.description,
        require_isolation=pool.require_isolation,
    )


def fall_back_rules(config: MasterConfig) -> dict[str, Rule]:
    """By pool."""
    return {
        pool.name: Rule(pools=pool.fall_back_to, after_s=pool.fall_back_after_s)
        for pool in config.pools()
    }


def _kind(pool: ResolvedPool) -> str:
    """What screens call it."""
    if pool.batch is not None:
        return pool.batch.type
    return pool.providers[0].type if pool.is_elastic else "static"
