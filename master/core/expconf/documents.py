"""YAML or JSON text to plain JSON-able data, with errors that name the line. Shared by all configuration files.

PyYAML alone reads `1e-4` as a string, `12:30` as 750 and `2020-01-01` as a date, none of which a user means in a
configuration; it also lets a later duplicate key win silently. The loader here differs in exactly these points.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable
from typing import Any

import yaml

MAX_NODES = 200_000
"""Values in one document after aliases are expanded: far above any real file, far below an alias bomb."""
MAX_DEPTH = 100
"""Nesting. Real files stay below 15; Python's recursion limit is what this protects."""
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
"""What JSON encoders and databases can carry."""


class MalformedDocument(ValueError):
    """The text cannot be read at all. The message is one line and starts with where."""


class _Loader(yaml.SafeLoader):
    """SafeLoader with the number rules of YAML 1.2 and without dates."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == _MERGE_TAG:
                continue
            if key_node.value in seen:
                raise _at(key_node, f'the key "{key_node.value}" is given twice')
            seen.add(key_node.value)
        self.flatten_mapping(node)
        return {
            self._key(key_node): self.construct_object(value_node, deep=deep)
            for key_node, value_node in node.value
        }

    def _key(self, node: yaml.Node) -> str:
        """The text of a key as JSON has it: `true: x` and `1: x` are the keys "true" and "1"."""
        key = self.construct_object(node, deep=True)
        if key is None or isinstance(key, bool):
            return json.dumps(key)
        if isinstance(key, str | int | float):
            return str(key)
        raise _at(node, "a map key must be text")


def _at(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


_MERGE_TAG = "tag:yaml.org,2002:merge"
_REPLACED_TAGS = {
    "tag:yaml.org,2002:timestamp",
    "tag:yaml.org,2002:float",
    "tag:yaml.org,2002:int",
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED_TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+|0o[0-7]+)\Z"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+"
        r"|\.[0-9]+(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))\Z|\.(?:nan|NaN|NAN)\Z"
    ),
    list("-+0123456789."),
)


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node).replace("_", ""), 0)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def read_document(text: str) -> Any:
    """Parse YAML or JSON text; empty text is None. Map keys become strings. Raises `MalformedDocument`."""
    try:
        data = _load(text)
    except MalformedDocument:
        raise
    except yaml.MarkedYAMLError as error:
        raise MalformedDocument(_marked(error)) from None
    except yaml.YAMLError as error:
        raise MalformedDocument(f"malformed YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise MalformedDocument(f"nested more than {MAX_DEPTH} deep") from None
    except ValueError as error:
        raise MalformedDocument(f"malformed YAML: {error}") from None
    return _Plain().copy(data, 0)


def _load(text: str) -> Any:
    if text.lstrip()[:1] == "{":
        # Most JSON is YAML too, but tabs and some escapes are not; what is not JSON may still be a YAML flow map.
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError:
            pass
    return yaml.load(text, Loader=_Loader)  # noqa: S506  (derived from SafeLoader)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise MalformedDocument(f'the key "{twice}" is given twice')
    return result


def _marked(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"malformed YAML{where}: {error.problem or error.context or 'cannot be read'}"


class _Plain:
    """Copies what YAML made into plain JSON data, counting nodes as aliases are expanded."""

    def __init__(self) -> None:
        self._nodes = 0

    def copy(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise MalformedDocument(f"more than {MAX_NODES} values once aliases are expanded")
        if depth > MAX_DEPTH:
            raise MalformedDocument(f"nested more than {MAX_DEPTH} deep")
        if isinstance(value, dict):
            return {key: self.copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.copy(item, depth + 1) for item in value]
        return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedDocument(f"{value} is not a number that a configuration can hold")
    if isinstance(value, int) and not _MIN_INT <= value <= _MAX_INT:
        raise MalformedDocument(f"the number {value} does not fit 64 bits")
    if value is None or isinstance(value, str | int | float):
        return value
    raise MalformedDocument(f"a value of type {type(value).__name__} has no place in JSON")
