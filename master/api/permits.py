"""What each route is for and what it is about, said beside the route:

    @router.post("/api/v1/experiments/{id}/kill")
    @permit(Action.END_EXPERIMENT, experiment("id"))
    async def kill(...)

`Guard` asks the rules before anything of the request's body is read. A route that says nothing cannot be made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from master.api import audit, targets
from master.api.access import note_known, require, token_in
from master.api.http.middleware import limited
from master.api.request_models import MAX_ID
from master.api.services import ApiContext
from master.auth.actions import ANYWHERE, Action, Target
from master.auth.actions import CLUSTER as THE_CLUSTER
from master.auth.permissions import visibility
from master.auth.principal import Principal
from master.core.jobs import JobType
from windlass.base.errors import InvalidArgument

log = structlog.get_logger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
Find = Callable[[ApiContext, Mapping[str, str], Principal], Awaitable[Target]]
MAX_BODY_BYTES = 8 * 1024 * 1024
"""A metric report or a batch of log lines is far smaller."""
MAX_PUBLIC_BYTES = 64 * 1024
"""Of somebody that nobody knows."""
MAX_SHOWN = 100
"""Characters of a wrong id."""
MAX_CREATE_BYTES = 130 * 1024 * 1024
"""Creating an experiment or a command: 95 MiB of files, in base64."""


@dataclass(frozen=True, slots=True)
class PermitScope:
    """What a route is about. Without `find` there is nothing to look up before the route runs."""

    text: str
    find: Find | None = None


CLUSTER = PermitScope("the cluster")
VISIBLE = PermitScope("what its reader may see")
"""The route hands its `Visibility` to every query."""


FOLLOWED = PermitScope("what its reader may see, for as long as they may")
"""The route asks anew before it tells anything. It is a WebSocket, which no guard is before."""


async def _caller(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
    return Target(kind="user", id=by.user_id, owner_id=by.user_id)


OWN = PermitScope("the caller", _caller)
IN_BODY = PermitScope("what its body names")
"""The route calls `access.require` with each target, once it has read them."""
SOME = PermitScope("some of what its body names")
"""The same; who may do it to nothing at all is refused before the body is read."""
ANYBODY = PermitScope("everybody, without a token")


@dataclass(frozen=True, slots=True)
class Permit:
    action: Action | None
    """None: needs no caller."""
    where: PermitScope
    max_body: int
    """Bytes that it takes."""

    @property
    def unnamed_target(self) -> Target:
        """Of a route that does not find one by its path."""
        return ANYWHERE if self.where in (VISIBLE, SOME) else THE_CLUSTER


def permit(
    action: Action, where: PermitScope, *, max_body: int = MAX_BODY_BYTES
) -> Callable[[F], F]:
    """Declare what a route does, and to what."""
    return _declare(Permit(action, where, max_body))


def public(route: F) -> F:
    """Declare that a route answers everybody, even without a token."""
    return _declare(Permit(None, ANYBODY, MAX_PUBLIC_BYTES))(route)


def _declare(declared: Permit) -> Callable[[F], F]:
    def decorate(route: F) -> F:
        route.__dict__["permit"] = declared
        return route

    return decorate


def permit_of(route: Callable[..., Any]) -> Permit:
    """Raises TypeError for a route that declares none."""
    declared = route.__dict__.get("permit")
    if not isinstance(declared, Permit):
        raise TypeError(f"{route.__module__}.{route.__qualname__} declares no permit")
    return declared


def experiment(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.experiment_target(api, _row_id(path, parameter))

    return PermitScope(f"experiment {{{parameter}}}", find)


def trial(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.trial_target(api, _row_id(path, parameter))

    return PermitScope(f"trial {{{parameter}}}", find)


def allocation(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.allocation_target(api, path[parameter])

    return PermitScope(f"allocation {{{parameter}}}", find)


def interactive_task(parameter: str, type_: JobType) -> PermitScope:
    """Of this kind: a route for commands does not find a notebook."""

    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.interactive_target(api, path[parameter], type_)

    return PermitScope(f"{type_.value.lower()} {{{parameter}}}", find)


def generic_task(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.generic_target(api, path[parameter])

    return PermitScope(f"generic task {{{parameter}}}", find)


def template(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.template_target(api, path[parameter])

    return PermitScope(f"template {{{parameter}}}", find)


def new_template(parameter: str) -> PermitScope:
    """Or the one that is there."""

    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.new_template_target(api, path[parameter], by)

    return PermitScope(f"template {{{parameter}}}", find)


def model(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.model_target(api, path[parameter])

    return PermitScope(f"model {{{parameter}}}", find)


def model_version(name: str, number: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.version_target(api, path[name], _row_id(path, number), by)

    return PermitScope(f"version {{{number}}} of model {{{name}}}", find)


def webhook(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.webhook_target(api, _row_id(path, parameter))

    return PermitScope(f"webhook {{{parameter}}}", find)


def workspace(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.workspace_target(api, _row_id(path, parameter))

    return PermitScope(f"workspace {{{parameter}}}", find)


def project(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.project_target(api, _row_id(path, parameter), by)

    return PermitScope(f"project {{{parameter}}}", find)


def user(parameter: str) -> PermitScope:
    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.user_target(api, _row_id(path, parameter))

    return PermitScope(f"user {{{parameter}}}", find)


def session(parameter: str) -> PermitScope:
    """To others it is not there."""

    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return targets.session_target(api, _row_id(path, parameter), by)

    return PermitScope(f"session {{{parameter}}}", find)


def access_token(parameter: str) -> PermitScope:
    """To others it is not there."""

    async def find(api: ApiContext, path: Mapping[str, str], by: Principal) -> Target:
        return await targets.token_target(api, _row_id(path, parameter), by)

    return PermitScope(f"access token {{{parameter}}}", find)


def _row_id(path: Mapping[str, str], parameter: str) -> int:
    try:
        id_ = int(path[parameter])
    except ValueError:
        id_ = -1
    if not 0 <= id_ <= MAX_ID:
        raise InvalidArgument(
            f"{parameter}: must be a number from 0 to {MAX_ID}, but is {path[parameter][:MAX_SHOWN]!r}"
        )
    return id_


def _refuse_nul(scope: Scope) -> None:
    """No name and no id has one, and databases refuse it. Raises InvalidArgument that names the parameter."""
    named: list[tuple[str, str]] = list(scope["path_params"].items())
    if b"%00" in scope["query_string"]:
        named += parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    for name, value in named:
        if "\0" in value:
            raise InvalidArgument(f"{name}: must not contain NUL characters")


class Guard:
    """ASGI: who calls, and may they? Then the route, which finds both in the scope."""

    def __init__(self, declared: Permit, app: ASGIApp) -> None:
        self._permit = declared
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        action = self._permit.action
        receive = limited(scope, receive, self._permit.max_body)
        if action is None:
            await self._app(scope, receive, send)
            return
        api = cast("ApiContext", scope["app"].state.api)
        principal = api.services.auth.identify(token_in(scope["headers"]))
        note_known(scope)
        _refuse_nul(scope)
        with audit.audited(scope):
            await self._permitted(action, api, principal, scope, receive, send)

    async def _permitted(
        self,
        action: Action,
        api: ApiContext,
        principal: Principal,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        find = self._permit.where.find
        if find is not None:
            target = await find(api, scope["path_params"], principal)
        else:
            target = self._permit.unnamed_target
        if self._permit.where is not IN_BODY:
            require(api, principal, action, target)
        # What a task reports is by that task; there is a lot of it.
        by_a_task = action is Action.REPORT and principal.task_id is not None
        if scope["method"] not in audit.READS and not by_a_task:
            log.info("request", action=str(action), target=str(target), by=principal.name)
        scope["principal"] = principal
        scope["visibility"] = visibility(principal, action)
        await self._app(scope, receive, audit.noting_refusals(send, principal, action))
