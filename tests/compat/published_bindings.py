"""Run by the published client's Python: calls every function of its bindings once, as JSON: name -> how it ended.

Takes a JSON object: `given` has values of parameters and fields by their names, `of` those of one function by its
name; the others are made up. How it ended: `ok`, the message of the error, or `crash` and what the client could not do.
"""

from __future__ import annotations

import enum
import inspect
import itertools
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from determined.common import api
from determined.common.api import authentication, bindings, errors

TAKES = ("Archive", "Cancel", "Delete", "Disable", "Kill", "Move", "Remove")
"""Verbs that take from the others what they ask for."""
MOST = 3
"""So many messages of a stream are read."""


def functions() -> list[tuple[str, Callable[..., Any]]]:
    found = [
        (name, function)
        for name, function in vars(bindings).items()
        if inspect.isfunction(function) and "session" in inspect.signature(function).parameters
    ]
    return sorted(found, key=lambda pair: place(pair[0]))


def place(name: str) -> tuple[int, str]:
    """What reads runs first, and what ends things last."""
    method, _, verb = name.partition("_")
    if verb == "Logout":
        return 4, name
    if method == "delete" or verb.startswith("Enable"):
        return 3, name
    if verb.startswith(TAKES):
        return 2, name
    return int(method != "get"), name


def made(name: str, kind: str, given: dict[str, Any]) -> Any:
    """A value for a parameter or field of this annotation."""
    if name in given:
        value = given[name]
        many = "Sequence" in kind and not isinstance(value, list)
        return [value] if many else value
    if "Sequence" in kind:
        return []
    for word in re.findall(r"\w+", kind):
        shape = getattr(bindings, word, None)
        if inspect.isclass(shape):
            if issubclass(shape, enum.Enum):
                return next(one for one in shape if not one.name.endswith("UNSPECIFIED"))
            return shape(**arguments(shape.__init__, given))
        if word in ("int", "float"):
            return 1
        if word == "bool":
            return False
        if word in ("Dict", "Any"):
            return {}
    return "x"


def arguments(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {
        one.name: made(one.name, str(one.annotation), given)
        for one in parameters
        if one.kind is one.KEYWORD_ONLY and (one.default is one.empty or one.name in given)
    }


def call(function: Callable[..., Any], session: api.Session, given: dict[str, Any]) -> str:
    try:
        answer = function(session, **arguments(function, given))
        if isinstance(answer, Iterator):
            list(itertools.islice(answer, MOST))
    except (errors.BadRequestException, bindings.APIHttpError) as error:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - the test is about what the client cannot read
        return f"crash {traceback.format_exc(limit=-3)}"
    return "ok"


def main() -> None:
    document = json.load(sys.stdin)
    session = authentication.login_with_cache(document["master"])
    ended = {}
    for name, function in functions():
        ended[name] = call(function, session, document["given"] | document["of"].get(name, {}))
    json.dump(ended, sys.stdout)


main()
