"""Options that several commands share: one dataclass, which a command takes as a single parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

Command = Callable[..., None]


def with_groups(command: Command) -> Command:
    """Each parameter that is a dataclass becomes one option for each of its fields, for typer to see."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: _group(kind) for name, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(given)
        command(**given)

    shown = list(_parameters(inspect.signature(command), hints))
    del run.__wrapped__
    run.__annotations__ = {one.name: one.annotation for one in shown}
    vars(run)["__signature__"] = inspect.Signature(shown)
    return run


def _group(kind: Any) -> Callable[[dict[str, Any]], object]:
    """Takes its own out of what was given."""
    names = [field.name for field in fields(kind)]
    return lambda given: kind(**{name: given.pop(name) for name in names})


def _parameters(
    signature: inspect.Signature, hints: Mapping[str, Any]
) -> Iterator[inspect.Parameter]:
    for parameter in signature.parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint):
            own = get_type_hints(hint, include_extras=True)
            for field in fields(hint):
                yield _option(field.name, own[field.name], field.default)
        else:
            yield _option(parameter.name, hint, parameter.default)


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
