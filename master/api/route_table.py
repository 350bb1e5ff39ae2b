"""Which route a request is for: found by the segments of its path, in a time that does not grow with their number.

A literal segment wins over a number, a number over a text. So an unknown path below a known one matches nothing, and is
not taken for an id that is none: `/experiments/serach` is unknown, `/experiments/7` an experiment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Scope, Send

_PARAMETER = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, slots=True)
class _Leaf:
    route: APIRoute
    names: Sequence[str]
    """Of its parameters, from left to right."""


@dataclass(slots=True)
class _Node:
    literals: dict[str, _Node] = field(default_factory=dict)
    number: _Node | None = None
    text: _Node | None = None
    leaves: dict[str, _Leaf] = field(default_factory=dict)
    """By method."""


class RouteTable:
    """ASGI, in the place of a router: finds the route and runs it.

    What is no API route (WebSockets, mounted applications) is left to a router of its own, which walks.
    """

    def __init__(self, routes: Iterable[BaseRoute], no_socket: ASGIApp) -> None:
        """`no_socket` answers WebSockets without a route."""
        self._root = _Node()
        others = [route for route in routes if not self._add(route)]
        self._no_socket = no_socket
        self._others = Router(others, redirect_slashes=False, default=self._unknown)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._others(scope, receive, send)
            return
        methods: set[str] = set()
        segments = scope["path"].split("/")
        for node, values in _walk(self._root, segments, 1, ()):
            leaf = node.leaves.get(scope["method"])
            if leaf is not None:
                scope["path_params"] = dict(zip(leaf.names, values, strict=True))
                scope["route"], scope["endpoint"] = leaf.route, leaf.route.endpoint
                await leaf.route.app(scope, receive, send)
                return
            methods.update(node.leaves)
        if methods:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(methods))})
        await self._others(scope, receive, send)

    async def _unknown(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._no_socket if scope["type"] == "websocket" else self._others.not_found
        await answer(scope, receive, send)

    def _add(self, route: BaseRoute) -> bool:
        """False for what has no place in a table."""
        if not isinstance(route, APIRoute):
            return False
        segments = route.path.split("/")[1:]
        numbers = {
            parameter.alias
            for parameter in route.dependant.path_params
            if parameter.field_info.annotation is int
        }
        node, names = self._root, []
        for segment in segments:
            parameter = _PARAMETER.fullmatch(segment)
            if parameter is not None:
                names.append(parameter[1])
                node = _child(node, is_number=parameter[1] in numbers)
            elif "{" in segment:
                return False
            else:
                node = node.literals.setdefault(segment, _Node())
        for method in route.methods or ():
            if method in node.leaves:
                raise ValueError(f"{method} {route.path} is there twice")
            node.leaves[method] = _Leaf(route, tuple(names))
        return True


def _child(node: _Node, *, is_number: bool) -> _Node:
    if is_number:
        node.number = node.number or _Node()
        return node.number
    node.text = node.text or _Node()
    return node.text


def _walk(
    node: _Node, segments: Sequence[str], at: int, values: tuple[Any, ...]
) -> Iterator[tuple[_Node, tuple[str, ...]]]:
    """Nodes with routes that match the path from segment `at` on, the best first."""
    if at == len(segments):
        if node.leaves:
            yield node, values
        return
    segment = segments[at]
    literal = node.literals.get(segment)
    if literal is not None:
        yield from _walk(literal, segments, at + 1, values)
    if node.number is not None and _NUMBER.fullmatch(segment):
        yield from _walk(node.number, segments, at + 1, (*values, segment))
    if node.text is not None and segment:
        yield from _walk(node.text, segments, at + 1, (*values, segment))
