"""What one client wants to hear of one kind of entities, and how its picture of them changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from master.core.updates.ranges import IdRanges
from master.core.visibility import Visibility

Feature = tuple[str, int]
"""Something by which entities are chosen, and its value."""


@dataclass(frozen=True, slots=True)
class Features:
    """By which filters choose an entity, and by whose workspace rights do."""

    id: int
    workspace_id: int
    user_id: int
    model_id: int = 0
    """Of a model version."""

    def __iter__(self) -> Iterator[Feature]:
        yield "id", self.id
        yield "workspace", self.workspace_id
        yield "user", self.user_id
        yield "model", self.model_id


@dataclass(frozen=True, slots=True)
class Filter:
    """One of the features is enough; without any nothing matches."""

    features: frozenset[Feature] = frozenset()

    def matches(self, entity: Features) -> bool:
        return not self.features.isdisjoint(entity)


@dataclass(frozen=True, slots=True)
class ShownRow:
    """How an entity stood when somebody was told of it last."""

    seq: int
    """The number of its newest change."""
    workspace_id: int


Present = Mapping[int, ShownRow]
"""By id."""


@dataclass(frozen=True, slots=True)
class Difference:
    deleted: IdRanges
    changed: tuple[int, ...]
    """New ones, too; in the order of their changes."""


def at_sync(known: IdRanges, since: int, present: Present) -> Difference:
    """The changes to send to a client that reports what it knows. `present`: what matches its filter and is visible."""
    news = (id_ for id_, now in present.items() if now.seq > since or id_ not in known)
    return Difference(known.minus(present), tuple(sorted(news, key=lambda id_: present[id_].seq)))


def hidden(told: Present, visible: Visibility) -> list[int]:
    """What a client was told of and may not see any more."""
    return [id_ for id_, one in told.items() if one.workspace_id not in visible]


def news(told: Present, present: Present) -> list[int]:
    """What a client whose picture is `told` has not been told yet."""
    return [id_ for id_, now in present.items() if id_ not in told or told[id_].seq < now.seq]
