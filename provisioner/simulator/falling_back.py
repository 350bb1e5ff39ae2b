"""Requests of a simulated cluster that fall back to other pools, by the rules that masters follow."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from master.core import fall_back
from master.core.fall_back import NOWHERE, STUCK, FallBackRule, Wait
from master.core.reasons import ReasonKind
from provisioner.simulator.pools import SimulatedCluster

ASKED_AT_ONCE = 100


class FallingBack:
    """Looks at what waits whenever the cluster has settled; masters look every few seconds."""

    def __init__(self, rules: Mapping[str, FallBackRule], cluster: SimulatedCluster) -> None:
        self._rules = {pool: rule for pool, rule in rules.items() if rule.pools}
        self._cluster = cluster
        self._waits: dict[str, Wait] = {}
        self.due_s = inf
        """When time alone may let something move."""

    def step(self, now_s: float) -> bool:
        """Move what may move now; whether anything has."""
        if not self._rules:
            return False
        self.due_s = inf
        self._waits = self._looked_at(now_s)
        asking = self._asking(now_s)
        moved = False
        for place in range(max((len(to) for to in asking.values()), default=0)):
            by_pool: dict[str, dict[str, Wait]] = {}
            for id_, to in asking.items():
                if place < len(to):
                    by_pool.setdefault(to[place], {})[id_] = self._waits[id_]
            for pool, waits in by_pool.items():
                answer = fall_back.answer(waits, self._cluster.prospects(pool, waits))
                for id_ in answer.takes:
                    self._cluster.move(id_, waits[id_].pool, pool)
                    self._waits[id_] = fall_back.moved(waits[id_], pool, now_s)
                    moved = True
                for id_ in (*answer.takes, *answer.later):
                    del asking[id_]
        return moved

    def _looked_at(self, now_s: float) -> dict[str, Wait]:
        """By request id, all that may fall back or have."""
        waits: dict[str, Wait] = {}
        for pool in self._cluster.pools.values():
            for id_ in pool.waiting:
                home = pool.progress[id_].pool
                if home not in self._rules:
                    continue
                reason = self._cluster.reason(pool.name, id_)
                kind = ReasonKind.QUEUED if reason is None else reason.kind
                never = kind in STUCK and not self._cluster.could_hold(pool.name, id_)
                wait = self._waits.get(id_) or Wait(home=home, pool=pool.name)
                waits[id_] = fall_back.seen(wait, kind, now_s, hopeless=never)
        return waits

    def _asking(self, now_s: float) -> dict[str, tuple[str, ...]]:
        """By request id, the pools that those may move to that have waited long enough."""
        asking: dict[str, tuple[str, ...]] = {}
        for id_, wait in self._waits.items():
            rule = self._rules.get(wait.home, NOWHERE)
            if to := fall_back.targets(wait, rule, now_s):
                if len(asking) < ASKED_AT_ONCE:
                    asking[id_] = to
                continue
            rested = wait.moved_at + fall_back.REST_S if wait.moved_at is not None else None
            at = rested if wait.is_away else fall_back.ripe_at(wait, rule)
            if at is not None and at > now_s:
                self.due_s = min(self.due_s, at)
        return asking
