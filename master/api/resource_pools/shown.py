"""Which pools somebody is shown: those that are everybody's, and those of workspaces that they may see."""

from __future__ import annotations

from master.api.services import ApiContext
from master.auth.actions import Action
from master.auth.permissions import allowed, visibility
from master.auth.principal import Principal
from rm_backends.views import PoolView


async def hidden_pools(api: ApiContext, by: Principal) -> frozenset[str]:
    """None for whoever binds pools to workspaces."""
    if allowed(by, Action.BIND_POOLS):
        return frozenset()
    return await api.services.rules.pool_bindings.hidden(visibility(by, Action.VIEW_WORKSPACES))


async def shown_pools(api: ApiContext, by: Principal) -> list[PoolView]:
    hidden = await hidden_pools(api, by)
    return [view for view in api.services.cluster.pools_view() if view.name not in hidden]
