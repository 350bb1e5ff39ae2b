"""Whether who follows something may still see it, as routes name it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from master.api.access import require, token_in
from master.api.http.permitted import WhilePermitted
from master.api.permits import permit_of
from master.api.services import ApiContext
from master.auth.permissions import visibility
from master.core.visibility import Visibility

Sees = Callable[[Visibility], Awaitable[object]]
"""Raises NotFound for one who may see no more than this."""
Following = Callable[[Sees | None], WhilePermitted]


async def still(connection: HTTPConnection) -> Following:
    scope = connection.scope
    api = cast("ApiContext", scope["app"].state.api)
    token = token_in(scope["headers"])
    declared = permit_of(scope["endpoint"])
    action = declared.action
    if action is None:
        raise TypeError(f"{scope['path']} needs no rights")

    def following(sees: Sees | None) -> WhilePermitted:
        async def check() -> None:
            principal = api.services.auth.identify(token)
            require(api, principal, action, declared.unnamed_target)
            visible = visibility(principal, action)
            if sees is not None and not (
                visible.is_everything and visible.of_interactive.is_everything
            ):
                await sees(visible)

        return WhilePermitted(check, api.services.auth.rights)

    return following


Still: TypeAlias = Annotated[Following, Depends(still)]
"""Makes, of what finds a thing for one who sees it, the condition for following it."""
