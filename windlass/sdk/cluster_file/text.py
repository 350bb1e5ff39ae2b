"""Steps as they are shown: a line each, and below it what changes; and as JSON. Of passwords only where they are, and
of the keys of storages and registries only whether they change: what this prints is kept by who runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

import yaml

from windlass.sdk.cluster_file.model import AgentUser, Password
from windlass.sdk.cluster_file.state import Action, Change, Kind, Step
from windlass.sdk.wire import Json

_CONFIGS = ("config", "policy", "checkpoint_storage")
_SECRET_KEYS = frozenset(
    {"access_key", "secret_key", "connection_string", "credential", "password", "auth"}
)
_MASK = "********"
_SIGNS = {Action.CREATE: "+", Action.CHANGE: "~", Action.REMOVE: "-"}


def title(step: Step) -> str:
    if step.kind is Kind.POLICY:
        what = f"config policy for {step.name} of {_scope(step.workspace)}"
    elif step.kind is Kind.ROLE:
        what = f"role {step.name} of {step.holder} in {_scope(step.workspace)}"
    elif step.workspace is not None:
        what = f"{step.kind} {step.name} in {_scope(step.workspace)}"
    else:
        what = f"{step.kind} {step.name}"
    return f"{_SIGNS[step.action]} {what}"


def diff(step: Step) -> list[str]:
    """The lines below the title."""
    return [line for change in step.changes for line in _lines(change, step.action)]


def document(step: Step, state: str, *, error: str = "", notes: list[str] | None = None) -> Json:
    return {
        "action": step.action.value,
        "kind": step.kind.value,
        "name": step.name,
        "workspace": step.workspace,
        "holder": str(step.holder) if step.holder is not None else None,
        "changes": [
            {"field": one.field, "old": _plain(one.old), "new": _plain(one.new)}
            for one in map(_masked, step.changes)
        ],
        "state": state,
        "error": error,
        "notes": notes or [],
    }


def _scope(workspace: str | None) -> str:
    return "the cluster" if workspace is None else f"workspace {workspace}"


def _lines(change: Change, action: Action) -> Iterator[str]:
    if change.field in _CONFIGS:
        if change.field == "checkpoint_storage":  # one of several changes of a workspace
            yield f"{change.field}:"
        yield from _configs(_masked(change))
    elif isinstance(change.new, tuple):
        old, new = set(change.old), set(change.new)
        yield from (f"+ {name}" for name in sorted(new - old))
        yield from (f"- {name}" for name in sorted(old - new))
        if change.field == "workspaces" and not new:
            yield "it is everybody's again"
    elif action is Action.CREATE or isinstance(change.new, Password):
        yield f"{change.field}: {_short(change.new)}"
    else:
        yield f"{change.field}: {_short(change.old)} -> {_short(change.new)}"


def _configs(change: Change) -> Iterator[str]:
    old, new = (_yaml(one) for one in (change.old, change.new))
    for line in list(unified_diff(old, new, lineterm=""))[2:]:
        if not line.startswith("@@"):
            yield line


def _masked(change: Change) -> Change:
    if change.field not in _CONFIGS:
        return change
    old = _without_secrets(change.old, change.old)
    return Change(change.field, old, _without_secrets(change.new, change.old))


def _without_secrets(value: Any, before: Any, key: str = "") -> Any:
    """`before`: what stood there. Another secret than that is shown as another one."""
    if isinstance(value, dict):
        was = before if isinstance(before, dict) else {}
        return {name: _without_secrets(one, was.get(name), name) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_secrets(one, None) for one in value]
    if key not in _SECRET_KEYS or not isinstance(value, str):
        return value
    return _MASK if value == before else f"{_MASK} (new)"


def _yaml(config: Json | None) -> list[str]:
    return yaml.safe_dump(config, sort_keys=True).splitlines() if config else []


def _short(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(value, AgentUser):
        return f"{value.user}:{value.group} ({value.uid}:{value.gid})"
    return "nothing" if plain in (None, "") else str(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Password):
        return f"from {value.source}"
    return value.model_dump() if isinstance(value, AgentUser) else value
