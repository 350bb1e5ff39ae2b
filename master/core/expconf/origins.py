"""Where each value of a complete configuration comes from: what was written, a template, a policy, or defaults. Pure.

A value that no layer gives is a default of Windlass and has no origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from master.core.expconf.container_defaults import experiment_layer
from master.core.expconf.models import searchers, storage
from master.core.expconf.parsing.errors import path
from master.core.expconf.parsing.normalise import normalise
from master.core.expconf.policies import Policies
from master.core.expconf.reading import ClusterDefaults
from master.core.expconf.templates import Template
from windlass.base.formats.json_types import JsonMapping, JsonObject

MAX_ORIGINS = 1000
"""So many values of one configuration are told of."""
MAX_ITEMS = 200
"""Of a list whose items are told apart; a longer one is the highest layer's."""
_UNIONS = (
    ("searcher", "name", searchers.COMMON_KEYS),
    ("checkpoint_storage", "type", storage.COMMON_KEYS),
)
"""Sections of which a layer with another tag gives only the common keys."""
_Place = tuple[str, ...]


class Source(StrEnum):
    SUBMITTED = "SUBMITTED"
    """Its user wrote it."""
    TEMPLATE = "TEMPLATE"
    POLICY = "POLICY"
    """A config policy: an invariant, or a constraint that fills in what is missing."""
    POOL = "POOL"
    """`task_container_defaults` of its pool."""
    WORKSPACE = "WORKSPACE"
    """The checkpoint storage of its workspace."""
    CLUSTER = "CLUSTER"
    """The checkpoint storage of the cluster."""


class Layer(NamedTuple):
    source: Source
    name: str
    """Of the template, pool or workspace; of a policy whose it is: "the cluster", "workspace X"."""
    document: JsonMapping


class Origin(NamedTuple):
    """A list may have several: it is put together."""

    path: str
    source: Source
    name: str

    def to_json(self) -> JsonObject:
        return {"path": self.path, "source": self.source.value, "name": self.name}


def layers_of(
    submitted: JsonMapping,
    *,
    template: Template | None,
    policies: Policies,
    pool: str,
    defaults: ClusterDefaults | None,
) -> list[Layer]:
    """What a configuration is made of, the highest first. `defaults` None: of one that was complete before."""
    above = [
        *(
            Layer(Source.POLICY, scope, policy.invariant_config)
            for scope, policy in reversed(policies.layers)
        ),
        Layer(Source.SUBMITTED, "", submitted),
        *([] if template is None else [Layer(Source.TEMPLATE, template.name, template.config)]),
    ]
    if defaults is None:
        return above
    slots = (submitted.get("resources") or {}).get("slots_per_trial")
    containers = experiment_layer(defaults.task_container_defaults, aux=slots == 0)
    own_storage = {"checkpoint_storage": defaults.workspace_checkpoint_storage}
    return [
        *above,
        *(
            Layer(Source.POLICY, scope, document)
            for scope, document in policies.filled_in(defaults.priority)
        ),
        Layer(Source.POOL, pool, containers),
        Layer(Source.WORKSPACE, "", own_storage),
        Layer(Source.CLUSTER, "", {"checkpoint_storage": defaults.checkpoint_storage}),
    ]


def origins_of(complete: JsonMapping, layers: Sequence[Layer]) -> list[Origin]:
    """Of each value of `complete` that a layer gives, by path. `layers`: the highest first."""
    given = [
        layer._replace(document=_without_other_members(normalise(layer.document), complete))
        for layer in layers
    ]
    found = {
        Origin(path("", place).removeprefix("."), layer.source, layer.name): None
        for place, value in _values(complete)
        for layer in _givers(place, value, given)
    }
    return list(found)[:MAX_ORIGINS]


def origins_document(origins: Sequence[Origin] | None) -> list[JsonObject] | None:
    """None: they are not known."""
    return None if origins is None else [origin.to_json() for origin in origins]


def origins_from_document(document: Sequence[JsonMapping] | None) -> list[Origin] | None:
    if document is None:
        return None
    return [Origin(one["path"], Source(one["source"]), one["name"]) for one in document]


def over(new: Sequence[Origin], old: Sequence[Origin]) -> list[Origin]:
    """Those of a configuration that was changed: what the change gives is no longer what it was."""
    taken = {origin.path for origin in new}
    return sorted([*new, *(origin for origin in old if origin.path not in taken)])


def _values(document: JsonMapping, place: _Place = ()) -> Iterator[tuple[_Place, Any]]:
    """Each with its place, by name. Maps are gone into, lists are values."""
    for key in sorted(document):
        value = document[key]
        if isinstance(value, Mapping) and value:
            yield from _values(value, (*place, key))
        elif value is not None:
            yield (*place, key), value


def _givers(place: _Place, value: Any, layers: Sequence[Layer]) -> Iterator[Layer]:
    """The highest layer that has it; of a list all that have items of it which no higher one has."""
    rest = list(value) if isinstance(value, list | tuple) else None
    for layer in layers:
        own = _at(layer.document, place)
        if own is None:
            continue
        parts = own if isinstance(own, list | tuple) else None
        if rest is None or parts is None or max(len(rest), len(parts)) > MAX_ITEMS:
            yield layer
            return
        left = [item for item in rest if not any(_is_from(item, one) for one in parts)]
        if len(left) < len(rest) or not value:
            yield layer
        rest = left


def _is_from(item: Any, given: Any) -> bool:
    """An item may have got defaults for keys that were not given."""
    if isinstance(item, Mapping) and isinstance(given, Mapping):
        return all(_is_from(item.get(key), value) for key, value in given.items())
    return bool(item == given)


def _without_other_members(document: JsonObject, complete: JsonMapping) -> JsonObject:
    for section, tag, common in _UNIONS:
        own = document.get(section)
        if not isinstance(own, Mapping):
            continue
        named, chosen = own.get(tag), (complete.get(section) or {}).get(tag)
        if named is not None and named != chosen:
            kept = {key: value for key, value in own.items() if key in common}
            document = {**document, section: kept}
    return document


def _at(document: JsonMapping, place: _Place) -> Any:
    found: Any = document
    for key in place:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
