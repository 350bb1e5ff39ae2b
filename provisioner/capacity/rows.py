"""Capacity memory as rows, one per key, and back. The rows of earlier releases are read, too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from provisioner.capacity.memory import Block, Boots, CapacityMemory
from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.types import Offer, OfferKey, Scope
from windlass.base.formats.strict_json import StrictJson

Row = dict[str, Any]
_T = TypeVar("_T")
_WHAT = "the memory of an offer"


def to_rows(memory: CapacityMemory) -> dict[str, Row]:
    """Name of a key -> what is known about it. Blocks that end with the master are left out."""
    rows = {_name(x): _row(memory, x) for x in memory.blocks.keys() | memory.boots.keys()}
    return {name: row for name, row in rows.items() if row is not None}


def changed_rows(old: CapacityMemory, new: CapacityMemory) -> dict[str, Row | None]:
    """What has to be written, by key; None: a row that is forgotten. Costs as much as has changed."""
    if old is new:
        return {}
    changed: dict[str, Row | None] = {}
    for scope in _differ(old.blocks, new.blocks) | _differ(old.boots, new.boots):
        row = _row(new, scope)
        if row is not None or _row(old, scope) is not None:
            changed[_name(scope)] = row
    return dict(sorted(changed.items()))


def from_rows(rows: Iterable[Mapping[str, Any]]) -> CapacityMemory:
    """Raises UnreadableDocument."""
    blocks: dict[Scope, Block] = {}
    boots: dict[Scope, Boots] = {}
    for row in rows:
        if "key" in row:
            _read_first_release(row, blocks, boots)
            continue
        scope = _SCOPES.load(row["scope"], _WHAT)
        if "block" in row:
            blocks[scope] = _BLOCKS.load({**row["block"], "scope": row["scope"]}, _WHAT)
        if "boots" in row:
            boots[scope] = _BOOTS.load(row["boots"], _WHAT)
    return CapacityMemory(blocks=blocks, boots=boots)


def _row(memory: CapacityMemory, scope: Scope) -> Row | None:
    boots, block = memory.boots.get(scope), memory.blocks.get(scope)
    row: Row = {"scope": _SCOPES.dump(scope)}
    if boots is not None:
        row["boots"] = _BOOTS.dump(boots)
    if block is not None and block.is_persistent:
        row["block"] = _BLOCKS.dump(block, exclude={"scope"})
    return row if len(row) > 1 else None


def _differ(old: Mapping[Scope, _T], new: Mapping[Scope, _T]) -> set[Scope]:
    """The keys whose values are not the same."""
    if old is new:
        return set()
    return {x for x in old.keys() | new.keys() if old.get(x) != new.get(x)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _FirstRelease:
    """What 0.1.0 kept for each single offer."""

    kind: BlockKind | None = None
    message: str = ""
    blocked_until: float = 0.0
    backoff_s: float = 0.0
    failed_boots: int = 0
    boot_mean_s: float | None = None
    boot_deviation_s: float = 0.0


def _read_first_release(
    row: Mapping[str, Any], blocks: dict[Scope, Block], boots: dict[Scope, Boots]
) -> None:
    key = _KEYS.load(row["key"], _WHAT)
    known = _OLD.load({name: row[name] for name in row if name != "key"}, _WHAT)
    offer = Offer(key=key, slots=0, usd_per_hour=0.0, boot_s=0.0)
    if known.kind is not None:
        scope = scope_of(known.kind, offer)
        blocks[scope] = Block(
            scope=scope,
            kind=known.kind,
            message=known.message,
            until=known.blocked_until,
            backoff_s=known.backoff_s,
        )
    if known.boot_mean_s is not None:
        boots[scope_of(BlockKind.BOOT, offer)] = Boots(
            mean_s=known.boot_mean_s, deviation_s=known.boot_deviation_s
        )


def _name(scope: Scope) -> str:
    given = {part: value for part, value in _SCOPES.dump(scope).items() if value is not None}
    return json.dumps(given, sort_keys=True, separators=(",", ":"))


_SCOPES: StrictJson[Scope] = StrictJson(Scope)
_BLOCKS: StrictJson[Block] = StrictJson(Block)
_BOOTS: StrictJson[Boots] = StrictJson(Boots)
_KEYS: StrictJson[OfferKey] = StrictJson(OfferKey)
_OLD: StrictJson[_FirstRelease] = StrictJson(_FirstRelease)
