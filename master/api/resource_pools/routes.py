"""Resource pools."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from master.api.access import Caller
from master.api.paging import pagination
from master.api.permits import CLUSTER, permit
from master.api.replies import Reply, reply
from master.api.request_models import Paging
from master.api.resource_pools.replies import ResourcePoolsReply
from master.api.resource_pools.shown import shown_pools
from master.api.resource_pools.wire import resource_pool
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.auth.actions import Action
from master.store.paging import cut
from provisioner.types import Offer

router = APIRouter(route_class=ApiRoute, tags=["resource pools"])


class ListPools(Paging):
    unbound: bool = False
    """Only those that are everybody's."""


@router.get("/api/v1/resource-pools")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def list_pools(
    query: Annotated[ListPools, Query()], by: Caller, api: TheApi
) -> Reply[ResourcePoolsReply]:
    shown = await shown_pools(api, by)
    if query.unbound:
        bound = await api.services.rules.pool_bindings.bound()
        shown = [view for view in shown if view.name not in bound]
    config = api.services.config
    configured = {pool.name: pool for pool in config.pools()}
    sold: dict[str, list[Offer]] = {}
    fleet = api.services.provisioner
    for each in () if fleet is None else fleet.offers():
        sold.setdefault(each.pool, []).append(each.offer)
    page = cut(shown, query.page())
    pools = [
        resource_pool(
            view,
            configured.get(view.name),
            sold.get(view.name, []),
            cluster_name=api.services.info.cluster_name,
            default_compute=view.name == config.default_compute_pool,
            default_aux=view.name == config.default_aux_pool,
        )
        for view in page.rows
    ]
    return reply({"resourcePools": pools, "pagination": pagination(page)})
