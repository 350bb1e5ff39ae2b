"""Machines that their provider takes back: spot interruptions and maintenance, whoever heard of it first. Pure.

The provider's API may say so, or the metadata service on the machine, which its agent watches: one message, from
which follows the same. What runs there is asked to leave until then and is demand at once, so that its replacement
comes while the machine still lives; of spot the offer is spared, for the next there would be taken back, too; the
machine is ended when nothing runs on it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BACKOFFS, BlockKind
from provisioner.fleet.instances import EndKind, EndRequest, InstanceRecord, InstanceState
from provisioner.providers.base import FoundInstance, FoundState
from provisioner.providers.images import is_bake
from provisioner.types import Market, Node, Notice, Scope

_OVER = (InstanceState.TERMINATING, InstanceState.GONE)


def notice_of(found: FoundInstance) -> Notice | None:
    """As its provider lists it."""
    if found.leaves_at is None or found.state is FoundState.ENDED:
        return None
    return Notice(at=found.leaves_at, why=found.leaves_because)


def noticed(record: InstanceRecord, found: Notice | None, node: Node | None) -> InstanceRecord:
    """With the notice that is known of it: the earliest that anybody has told."""
    known = record.notice
    for told in (found, None if node is None else node.notice):
        if told is not None and (known is None or told.at < known.at):
            known = told
    return record if known is record.notice else replace(record, notice=known)


def spared(memory: CapacityMemory, record: InstanceRecord, now: float) -> CapacityMemory:
    """Where a spot machine is taken back, the next would be, too: its offer is spared until some time after."""
    notice = record.notice
    if notice is None or record.offer.key.market is not Market.SPOT:
        return memory
    until = notice.at + BACKOFFS[BlockKind.TAKEN_BACK].first_s
    scope = Scope.of(record.offer.key)
    known = memory.blocks.get(scope)
    refused = known is not None and known.is_shut(now) and known.kind is not BlockKind.TAKEN_BACK
    if until <= now or refused:  # a refusal says more
        return memory
    said = f"machines are taken back: {notice.why}"
    return memory.refused(scope, BlockKind.TAKEN_BACK, said, now=now, until=until)


def leaving(records: Mapping[str, InstanceRecord]) -> dict[str, Notice]:
    """Machines whose work is to leave, because their provider takes them back."""
    return {
        record.id: record.notice
        for record in records.values()
        if record.notice is not None and record.is_alive
    }


def end_of_taken_back(record: InstanceRecord) -> EndRequest | None:
    """Nothing runs there again: it is ended when it is empty."""
    if record.notice is None or record.state in _OVER or is_bake(record.intent_id):
        return None
    why = f"its provider takes it back: {record.notice.why}"
    return EndRequest(instance_id=record.id, kind=EndKind.TAKEN_BACK, why=why)
