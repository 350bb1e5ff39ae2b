"""YAML or JSON text to plain JSON-able data, with errors that name the line. Shared by all configuration files.

PyYAML alone reads `1e-4` as a string, `12:30` as 750 and `2020-01-01` as a date, none of which a user means in a
configuration; it also lets a later duplicate key win silently, and composes whatever a few aliases and merge keys
multiply to. Here only its parser is used: values are built, counted and bounded as its events come.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import yaml

from windlass.base.formats.scalars import MERGE, construct, tag_of

MAX_TEXT = 1024 * 1024
"""Characters of a document, and of all its strings once aliases are expanded. Real files have some thousands."""
MAX_VALUES = 100_000
"""Values and keys of a document once aliases and merge keys are expanded."""
MAX_DEPTH = 100
"""Nesting. Real files stay below 15; Python's recursion limit is what this protects."""
MAX_SECONDS = 5.0
"""Of one thread's CPU time: four times what `MAX_VALUES` take."""
_SHOWN = 80
"""Characters of a key that errors show."""
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
"""What JSON encoders and databases can carry."""

K = TypeVar("K")
Place: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead to a value."""


class MalformedDocument(ValueError):
    """The text cannot be read at all. The message is one line and starts with where."""


def read_document(text: str) -> Any:
    """Parse YAML or JSON text; empty text is None. Map keys become strings. Raises `MalformedDocument`."""
    if len(text) > MAX_TEXT:
        raise MalformedDocument(f"the text has {len(text)} characters; the maximum is {MAX_TEXT}")
    try:
        if text.lstrip()[:1] == "{" and (found := _json(text)) is not None:
            return found
        return _Builder(text).document()
    except yaml.MarkedYAMLError as error:
        raise MalformedDocument(_marked(error)) from None
    except yaml.YAMLError as error:
        raise MalformedDocument(f"malformed YAML: {str(error).splitlines()[0]}") from None


def read_with_lines(text: str) -> tuple[Any, dict[Place, int]]:
    """What `read_document` reads, and the line of each key and item. Of what an alias stands for: that of the alias."""
    if len(text) > MAX_TEXT:
        raise MalformedDocument(f"the text has {len(text)} characters; the maximum is {MAX_TEXT}")
    lines: dict[Place, int] = {}
    try:
        return _Builder(text, lines).document(), lines
    except yaml.MarkedYAMLError as error:
        raise MalformedDocument(_marked(error)) from None
    except yaml.YAMLError as error:
        raise MalformedDocument(f"malformed YAML: {str(error).splitlines()[0]}") from None


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of what was read as JSON. Raises `MalformedDocument` for what no configuration may hold."""
    return {**_copy(document, _Budget(), 0)}


class _Budget:
    """What one document may still cost."""

    def __init__(self) -> None:
        self._values = 0
        self._characters = 0
        self._until = time.thread_time() + MAX_SECONDS

    def take(self, depth: int, text: object = None) -> None:
        """For each value and key. Raises `MalformedDocument` when nothing is left."""
        self._values += 1
        if isinstance(text, str):
            self._characters += len(text)
        if self._values > MAX_VALUES:
            raise MalformedDocument(f"more than {MAX_VALUES} values once aliases are expanded")
        if self._characters > MAX_TEXT:
            raise MalformedDocument(f"more than {MAX_TEXT} characters once aliases are expanded")
        if depth > MAX_DEPTH:
            raise MalformedDocument(f"nested more than {MAX_DEPTH} deep")
        if time.thread_time() > self._until:
            raise MalformedDocument(f"it takes more than {MAX_SECONDS:g} seconds to read")


def _copy(value: Any, budget: _Budget, depth: int) -> Any:
    budget.take(depth, value)
    if isinstance(value, Mapping):
        return {_key(key, budget, depth): _copy(v, budget, depth + 1) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item, budget, depth + 1) for item in value]
    return _fit(value)


def _key(key: str, budget: _Budget, depth: int) -> str:
    budget.take(depth, key)
    return str(_fit(key))


def _fit(value: Any) -> Any:
    """The scalar itself. Raises `MalformedDocument` for one that JSON or a database cannot carry."""
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedDocument(f"{value} is not a number that a configuration can hold")
    if isinstance(value, int) and not _MIN_INT <= value <= _MAX_INT:
        digits = str(value) if value.bit_length() < 128 else "given"
        raise MalformedDocument(f"the number {digits} does not fit 64 bits")
    return value


def shown(text: str) -> str:
    """For an error: quoted, and not longer than a line."""
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return json.dumps(cut)


def _json(text: str) -> Any:
    """None if it is not JSON. Most JSON is YAML too, but tabs and some escapes are not; a YAML flow map is not JSON."""
    try:
        return plain(json.loads(text, object_pairs_hook=_unique))
    except json.JSONDecodeError:
        return None
    except RecursionError:
        raise MalformedDocument(f"nested more than {MAX_DEPTH} deep") from None
    except MalformedDocument:
        raise
    except ValueError:  # Python does not read thousands of digits
        raise MalformedDocument("a number does not fit 64 bits") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise MalformedDocument(
            f"the key {shown(_repeated(key for key, _ in pairs))} is given twice"
        )
    return result


def _repeated(keys: Iterable[K]) -> K:
    seen: set[K] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    raise LookupError


class _Builder:
    """Builds the value of a document from the events of PyYAML's parser."""

    def __init__(self, text: str, lines: dict[Place, int] | None = None) -> None:
        """`lines`: filled with that of each key and item."""
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.SafeLoader)
        self._budget = _Budget()
        self._anchors: dict[str, Any] = {}
        self._place: list[str | int] = []
        self._lines = lines

    def document(self) -> Any:
        next(self._events)  # the start of the stream
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), 0)
        next(self._events)  # the end of the document
        end = next(self._events)
        if not isinstance(end, yaml.StreamEndEvent):
            raise _at(end, "but found another document")
        return value

    def _value(self, event: yaml.Event, depth: int) -> Any:
        self._budget.take(depth, getattr(event, "value", None))
        match event:
            case yaml.AliasEvent():
                return self._alias(event, depth)
            case yaml.ScalarEvent():
                value = self._scalar(event, tag_of(event))
            case yaml.SequenceStartEvent():
                value = self._sequence(event, depth)
            case yaml.MappingStartEvent():
                value = self._mapping(event, depth)
            case _:
                raise _at(event, "cannot be read")
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _alias(self, event: yaml.AliasEvent, depth: int) -> Any:
        """What an anchor names is known once it is complete: nothing contains itself."""
        name = event.anchor or ""
        if name not in self._anchors:
            raise _at(event, f"found undefined alias {shown(name)}")
        return _copy(self._anchors[name], self._budget, depth)

    def _scalar(self, event: yaml.ScalarEvent, tag: str) -> Any:
        try:
            return _fit(construct(tag, event.value))
        except MalformedDocument:
            raise
        except ValueError as error:
            raise _at(event, str(error)) from None

    def _sequence(self, event: yaml.SequenceStartEvent, depth: int) -> list[Any]:
        _check_tag(event, "seq")
        items: list[Any] = []
        while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
            items.append(self._below(len(items), item, item, depth))
        return items

    def _mapping(self, event: yaml.MappingStartEvent, depth: int) -> dict[str, Any]:
        _check_tag(event, "map")
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                raise _at(key, "a map key must be text")
            tag = tag_of(key)
            if tag == MERGE:
                merged.update(self._merged(depth))
                continue
            name = self._name(key, tag, depth)
            if name in own:
                raise _at(key, f"the key {shown(name)} is given twice")
            own[name] = self._below(name, key, next(self._events), depth)
        return {**merged, **own}

    def _below(self, part: str | int, at: yaml.Event, event: yaml.Event, depth: int) -> Any:
        """The value of a key or an item, which is written `at`."""
        if self._lines is None:
            return self._value(event, depth + 1)
        self._place.append(part)
        if at.start_mark:
            self._lines[tuple(self._place)] = at.start_mark.line + 1
        value = self._value(event, depth + 1)
        self._place.pop()
        return value

    def _name(self, key: yaml.ScalarEvent, tag: str, depth: int) -> str:
        """The text of a key as JSON has it: `true: x` and `1: x` are the keys "true" and "1"."""
        self._budget.take(depth, key.value)
        value = self._scalar(key, tag)
        if key.anchor is not None:
            self._anchors[key.anchor] = value
        return json.dumps(value) if value is None or isinstance(value, bool) else str(value)

    def _merged(self, depth: int) -> dict[str, Any]:
        """The value of a merge key: one map or a list of them, of which the first wins."""
        start = next(self._events)
        value = self._value(start, depth + 1)
        result: dict[str, Any] = {}
        for one in reversed(value if isinstance(value, list) else [value]):
            if not isinstance(one, dict):
                raise _at(start, "expected a map or a list of maps to merge")
            result.update(one)
        return result


def _check_tag(event: yaml.CollectionStartEvent, kind: str) -> None:
    if event.tag not in (None, "!", f"tag:yaml.org,2002:{kind}"):
        raise _at(event, f"could not determine a constructor for the tag '{event.tag}'")


def _at(event: yaml.Event, problem: str) -> MalformedDocument:
    mark = event.start_mark
    return MalformedDocument(_malformed(problem, (mark.line, mark.column) if mark else None))


def _marked(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "cannot be read"
    return _malformed(problem, (mark.line, mark.column) if mark else None)


def _malformed(problem: str, mark: tuple[int, int] | None) -> str:
    where = f" at line {mark[0] + 1}, column {mark[1] + 1}" if mark else ""
    return f"malformed YAML{where}: {problem}"
