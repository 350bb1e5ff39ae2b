"""The audit log: a line for each act of administration and for each refusal, by the logger `audit`.

It is written before the act, by whoever permits it: nothing is done that has no line. What a request holds, be it
a password or a configuration, is in none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import structlog
from starlette.types import Message, Scope, Send

from master.auth.actions import ANYWHERE, Action, Target
from master.auth.principal import Principal

log = structlog.get_logger("audit")

READS = frozenset({"GET", "HEAD"})
ADMINISTRATION = frozenset(
    {
        Action.CREATE_WORKSPACE,
        Action.UPDATE_WORKSPACE,
        Action.DELETE_WORKSPACE,
        Action.SET_AGENT_USER,
        Action.SET_WORKSPACE_STORAGE,
        Action.SET_DEFAULT_POOLS,
        Action.BIND_NAMESPACES,
        Action.SET_QUOTAS,
        Action.CONTROL_JOB_QUEUE,
        Action.CREATE_TEMPLATE,
        Action.UPDATE_TEMPLATE,
        Action.DELETE_TEMPLATE,
        Action.UPDATE_GLOBAL_POLICIES,
        Action.UPDATE_WORKSPACE_POLICIES,
        Action.EDIT_WEBHOOKS,
        Action.BIND_POOLS,
        Action.UPDATE_AGENTS,
        Action.UPDATE_USER,
        Action.ADMINISTRATE_USERS,
        Action.UPDATE_GROUPS,
        Action.ASSIGN_ROLES,
        Action.UPDATE_ROLES,
        Action.ADMINISTRATE_CLUSTER,
        Action.MANAGE_SESSIONS,
        Action.CREATE_TOKEN,
        Action.UPDATE_TOKEN,
    }
)
"""Its changes; who reads of these things is not noted."""


@dataclass(slots=True)
class _Request:
    scope: Scope
    denied: bool = False


_request: ContextVar[_Request | None] = ContextVar("audited request", default=None)


@contextmanager
def audited(scope: Scope) -> Iterator[None]:
    """What is decided meanwhile is decided for this request."""
    token = _request.set(_Request(scope))
    try:
        yield
    finally:
        _request.reset(token)


def decided(by: Principal, action: Action, target: Target, *, allowed: bool) -> None:
    """Write a line, if this decision deserves one."""
    request = _request.get()
    is_read = request is None or request.scope["method"] in READS
    if not allowed:
        if request is not None:
            request.denied = True
        log.warning("denied", **_facts(request, by, action, target))
    elif action in ADMINISTRATION and target is not ANYWHERE and not is_read:
        log.info("allowed", **_facts(request, by, action, target))


def noting_refusals(send: Send, by: Principal, action: Action) -> Send:
    """For 403 that no decision about a permission has brought about: a batch system's, that of a closed account."""

    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 403:
            request = _request.get()
            if request is not None and not request.denied:
                log.warning("denied", **_facts(request, by, action, None))
        await send(message)

    return noting


def _facts(
    request: _Request | None, by: Principal, action: Action, target: Target | None
) -> dict[str, object]:
    facts: dict[str, object] = {"by": str(by), "user": by.user_id, "login": _login(by)}
    if request is not None:
        scope = request.scope
        client = scope.get("client")
        facts |= {
            "address": client[0] if client else "",
            "request": f"{scope['method']} {scope['path']}",
        }
    facts["action"] = str(action)
    if target is not None:
        facts |= {"target": str(target), "workspace": target.workspace_id}
    return facts


def _login(by: Principal) -> str:
    if by.task_id is not None:
        return "task"
    if by.access_token_id is not None:
        return f"access token {by.access_token_id}"
    return f"session {by.session_id}"
