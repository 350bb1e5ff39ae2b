"""Images of the machines of elastic pools: our own addition to the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller
from master.api.permits import CLUSTER, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Text
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, ImageBakes, TheApi
from master.api.values import Timestamp, epoch
from master.auth.actions import Action
from provisioner.capacity.offer_views import offer_id
from provisioner.images.records import BakeRecord, BakeState
from windlass.base.errors import Conflict, NotFound

router = APIRouter(prefix="/api/v1/windlass/fleet/bakes", route_class=ApiRoute, tags=["windlass"])


class Bake(TypedDict):
    id: str
    pool: str
    state: BakeState
    note: str
    """What it does or waits for now."""
    offer: str
    """What its machine was bought as."""
    instanceId: str
    """Empty: not launched yet."""
    imageName: str
    imageId: str
    """Empty until it is ready."""
    setting: str
    """The line of the pool's provider section that makes its machines boot the image; empty until it is ready."""
    error: str
    """Why it failed."""
    by: str
    usd: float
    """What its machine cost."""
    createdAt: Timestamp | None
    endedAt: Timestamp | None


class BakesReply(TypedDict):
    bakes: list[Bake]


class BakeReply(TypedDict):
    bake: Bake


class BeginBake(Body):
    pool: Text
    instance_type: Annotated[str, Field(max_length=200)] = ""
    """Where the pool buys several."""


@router.get("")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def bakes(by: Caller, api: TheApi) -> Reply[BakesReply]:
    """Those under way, and the newest that are over; the newest first. Of pools that the caller is shown."""
    hidden = await hidden_pools(api, by)
    provisioner = api.services.provisioner
    found = () if provisioner is None else provisioner.bakery.all()
    return reply({"bakes": [_bake(each) for each in found if each.pool not in hidden]})


@router.post("")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def begin_bake(body: BeginBake, principal: Caller, api: TheApi) -> Reply[BakeReply]:
    """Launch a machine as those of the pool, make an image of it, and end it."""
    names = [pool.name for pool in api.services.config.pools()]
    if body.pool not in names:
        raise NotFound("resource pool", body.pool, f"; there are: {', '.join(names)}")
    begun = await _bakery(api).begin(body.pool, body.instance_type, by=principal)
    return reply({"bake": _bake(begun)})


@router.delete("/{bake_id}")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def cancel_bake(bake_id: str, principal: Caller, api: TheApi) -> Reply[BakeReply]:
    """End its machine, and remove what there is of the image. One that is over stays as it is."""
    return reply({"bake": _bake(await _bakery(api).cancel(bake_id, by=principal))})


def _bakery(api: ApiContext) -> ImageBakes:
    provisioner = api.services.provisioner
    if provisioner is None:
        raise Conflict("the cluster has no elastic pool: there are no machines to make images of")
    return provisioner.bakery


def _bake(bake: BakeRecord) -> Bake:
    ready = bake.state is BakeState.READY
    return {
        "id": bake.id,
        "pool": bake.pool,
        "state": bake.state,
        "note": bake.note,
        "offer": offer_id(bake.offer.key),
        "instanceId": bake.instance_id,
        "imageName": bake.name,
        "imageId": bake.image_id if ready else "",
        "setting": f"{bake.image_key}: {bake.image_id}" if ready else "",
        "error": bake.error,
        "by": bake.by,
        "usd": round(bake.usd, 4),
        "createdAt": epoch(bake.created_at),
        "endedAt": epoch(bake.ended_at),
    }
