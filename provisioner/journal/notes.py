"""What one reconcile pass adds to the journal, told by how it changed the fleet. Pure.

What follows from a decision is what the pass commits: a machine whose cordon failed was not ended, and is not noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import isfinite

from master.core.scheduler.explain import count
from provisioner.fleet.instances import InstanceRecord, InstanceState
from provisioner.fleet.intents import IntentRecord, IntentState
from provisioner.fleet.state import FleetState
from provisioner.journal.records import (
    MERGED_WITHIN_S,
    MOST_JOBS,
    MOST_WEIGHED,
    Alternative,
    Decision,
    DecisionKind,
)
from provisioner.journal.unmet import Unmet, Weighing, is_due, weighed_for
from provisioner.planning.explain import offer_name
from provisioner.planning.plan_types import Plan
from provisioner.planning.preview import Considered
from provisioner.providers.images import is_bake
from provisioner.types import Offer

_ENDS = (InstanceState.TERMINATING, InstanceState.STOPPING)


class Notes:
    """The journal while one pass changes it. For one call only."""

    def __init__(
        self, old: FleetState, new: FleetState, now: float, new_id: Callable[[], str]
    ) -> None:
        self._old = old
        self._new = new
        self._now = now
        self._new_id = new_id
        self._entries = dict(old.decisions)
        self._by_key = {each.key: each for each in old.decisions.values() if each.key}

    def noted(self, plan: Plan, weighing: Weighing) -> Mapping[str, Decision]:
        """All entries that may change, as they are after this pass."""
        self._settle_launches()
        self._launched(plan, weighing)
        self._ended()
        self._moved(plan)
        self._cancelled()
        self._refused(weighing)
        self._close_old()
        return self._entries

    def _settle_launches(self) -> None:
        """What providers answered."""
        for entry in [each for each in self._entries.values() if each.launches]:
            intents = [self._new.intents.get(id_) for id_ in entry.launches]
            open_ids = tuple(x.id for x in intents if x is not None and not x.is_finished)
            if open_ids == entry.launches:
                continue
            settled = frozenset(entry.launches) - frozenset(open_ids)
            made = [x.id for x in self._new.instances.values() if x.intent_id in settled]
            said = [x.message for x in intents if x and x.state is IntentState.FAILED]
            instances = (*entry.instances, *made)
            self._put(
                replace(
                    entry,
                    launches=open_ids,
                    instances=instances,
                    said=said[-1] if said else entry.said,
                    stands=bool(open_ids),
                    is_open=bool(open_ids) or not instances,
                    written_at=self._now,
                )
            )

    def _launched(self, plan: Plan, weighing: Weighing) -> None:
        new = (x for id_, x in self._new.intents.items() if id_ not in self._old.intents)
        asked: dict[tuple[str, Offer, str], list[IntentRecord]] = {}
        for intent in new:
            if intent.state is IntentState.INTENT and not is_bake(intent.id):
                asked.setdefault((intent.pool, intent.offer, intent.replaces), []).append(intent)
        for (pool, offer, replaces), intents in asked.items():
            claims = [ids for intent in intents for ids in intent.claims]
            self._launch(
                pool, offer, claims, weighing, replaces, launches=tuple(x.id for x in intents)
            )
        for launch in plan.launches:
            if launch.starts:
                self._launch(
                    launch.pool, launch.offer, launch.claims, weighing, starts=launch.starts
                )

    def _launch(
        self,
        pool: str,
        offer: Offer,
        claims: Sequence[Sequence[str]],
        weighing: Weighing,
        replaces: str = "",
        *,
        launches: tuple[str, ...] = (),
        starts: tuple[str, ...] = (),
    ) -> None:
        runs = tuple(dict.fromkeys(chain.from_iterable(claims)))  # in one order in every process
        machines = len(claims)
        what = f"{'starting' if starts else 'launching'} {machines} x {offer_name(offer)}"
        whole = count(len(runs), "run") if runs else "machines that the pool keeps ready"
        entry = Decision(
            id="",
            pool=pool,
            kind=DecisionKind.LAUNCHED,
            key="" if starts else f"{pool} launches {offer.key} {replaces}",
            reason=f"{what} in place of {replaces}" if replaces else f"{what} for {whole}",
            first_at=self._now,
            last_at=self._now,
            written_at=self._now,
            stands=bool(launches),
            is_open=bool(launches),
            offer=offer.key,
            machines=machines,
            slots=machines * offer.slots,
            usd=known_usd(machines * offer.usd_per_hour),
            runs=len(runs),
            jobs=_jobs(weighing.jobs.get(id_, "") for id_ in runs),
            launches=launches,
            instances=starts,
        )
        self._add(_with_weighed(entry, weighed_for(weighing.considered, frozenset(runs))))

    def _ended(self) -> None:
        groups: dict[tuple[str, str], list[InstanceRecord]] = {}
        for id_, record in self._new.instances.items():
            before = self._old.instances.get(id_)
            if before is record or record.state not in _ENDS or is_bake(record.intent_id):
                continue
            if before is None or before.state is not record.state:
                groups.setdefault((record.pool, record.reason), []).append(record)
        for (pool, reason), records in groups.items():
            self._add(self._of_machines(DecisionKind.ENDED, pool, reason, records))

    def _moved(self, plan: Plan) -> None:
        runs = {move.instance_id: len(move.requests) for move in plan.moves}
        groups: dict[tuple[str, str], list[InstanceRecord]] = {}
        for id_ in runs:
            record, before = self._new.instances.get(id_), self._old.instances.get(id_)
            if record is None or record.moving_since is None:
                continue
            if before is None or before.moving_since is None:
                groups.setdefault((record.pool, record.moving_why), []).append(record)
        for (pool, reason), records in groups.items():
            entry = self._of_machines(DecisionKind.MOVED, pool, reason, records)
            self._add(replace(entry, runs=sum(runs[record.id] for record in records)))

    def _of_machines(
        self, kind: DecisionKind, pool: str, reason: str, records: Sequence[InstanceRecord]
    ) -> Decision:
        keys = {record.offer.key for record in records}
        return Decision(
            id="",
            pool=pool,
            kind=kind,
            key="",
            reason=reason,
            first_at=self._now,
            last_at=self._now,
            written_at=self._now,
            offer=keys.pop() if len(keys) == 1 else None,
            machines=len(records),
            slots=sum(record.offer.slots for record in records),
            usd=known_usd(sum(record.offer.usd_per_hour for record in records)),
            instances=tuple(record.id for record in records),
        )

    def _cancelled(self) -> None:
        for id_, intent in self._new.intents.items():
            before = self._old.intents.get(id_)
            if before is intent or not intent.cancel_why or (before and before.cancel_why):
                continue
            self._add(
                Decision(
                    id="",
                    pool=intent.pool,
                    kind=DecisionKind.CANCELLED,
                    key="",
                    reason=intent.cancel_why,
                    first_at=self._now,
                    last_at=self._now,
                    written_at=self._now,
                    offer=intent.offer.key,
                    machines=intent.count,
                    slots=intent.count * intent.offer.slots,
                    usd=known_usd(intent.count * intent.offer.usd_per_hour),
                )
            )

    def _refused(self, weighing: Weighing) -> None:
        current = set()
        for unmet in weighing.unmet:
            current.add(unmet.key)
            known = self._by_key.get(unmet.key)
            if is_due(known, unmet, self._now):
                self._add(self._refusal(unmet, weighing))
            elif known is not None:
                self._put(replace(known, last_at=self._now, times=known.times + 1))
        for entry in list(self._entries.values()):
            is_over = entry.kind is DecisionKind.REFUSED and entry.key not in current
            if is_over and entry.stands:
                self._put(replace(entry, stands=False, written_at=self._now))

    def _refusal(self, unmet: Unmet, weighing: Weighing) -> Decision:
        runs = frozenset(gang.request_id for gang in unmet.gangs)
        entry = Decision(
            id="",
            pool=unmet.pool,
            kind=DecisionKind.REFUSED,
            key=unmet.key,
            reason=unmet.reason,
            first_at=self._now,
            last_at=self._now,
            written_at=self._now,
            stands=True,
            is_open=True,
            slots=unmet.slots,
            runs=len(runs),
            jobs=_jobs(gang.job_id for gang in unmet.gangs),
        )
        return _with_weighed(entry, weighed_for(weighing.considered, runs))

    def _add(self, entry: Decision) -> None:
        """As one of its own, or to the entry of the same key."""
        known = self._by_key.get(entry.key)
        if known is None or not _goes_on(known, self._now):
            self._put(replace(entry, id=self._new_id()))
            return
        self._put(
            replace(
                entry,
                id=known.id,
                first_at=known.first_at,
                times=known.times + 1,
                jobs=_jobs((*entry.jobs, *known.jobs)),
                launches=(*known.launches, *entry.launches),
                said=known.said,
                weighed=entry.weighed or known.weighed,
                alternatives=entry.alternatives or known.alternatives,
            )
        )

    def _put(self, entry: Decision) -> None:
        self._entries[entry.id] = entry
        if entry.key:
            self._by_key[entry.key] = entry

    def _close_old(self) -> None:
        for entry in list(self._entries.values()):
            if entry.is_open and not entry.stands and not _goes_on(entry, self._now):
                self._put(replace(entry, is_open=False, written_at=self._now))


def _goes_on(known: Decision, now: float) -> bool:
    """What happens again is added to it. A launch that is under way, or of which something came, is told alone."""
    if not known.is_open or known.instances or known.launches:
        return False
    return known.stands or now - known.last_at < MERGED_WITHIN_S


def _jobs(job_ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(job_id for job_id in job_ids if job_id))[:MOST_JOBS]


def _with_weighed(entry: Decision, found: Considered | None) -> Decision:
    if found is None:
        return entry
    best = tuple(_alternatives(found))[:MOST_WEIGHED]
    return replace(entry, weighed=len(found.offers), alternatives=best)


def _alternatives(found: Considered) -> Iterator[Alternative]:
    for each in found.offers:
        usd = each.usd_per_work_hour
        yield Alternative(
            offer=each.offer.key,
            machines=each.machines,
            usd=known_usd(each.machines * each.offer.usd_per_hour) if each.machines else None,
            usd_per_work_hour=None if usd is None else known_usd(usd),
            launched=each.launched,
            why_not=each.why_not,
        )


def known_usd(usd: float) -> float | None:
    """An unknown price is not a number of dollars."""
    return usd if isfinite(usd) else None
