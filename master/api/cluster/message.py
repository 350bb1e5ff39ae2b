"""The message that administrators show to everybody."""

from __future__ import annotations

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.access import Caller
from master.api.permits import CLUSTER, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, OptionalTime, Text, Time
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Timestamp, time
from master.auth.actions import Action
from master.cluster_message import ClusterMessage, new_message

router = APIRouter(route_class=ApiRoute, tags=["master"])


class SetClusterMessage(Body):
    message: Text
    start_time: Time
    end_time: OptionalTime = None
    duration: Text | None = None
    """"24h", "5d" or "2w"; not together with endTime."""


class ShownClusterMessage(TypedDict):
    message: str
    startTime: Timestamp
    endTime: Timestamp | None
    """Null: until it is cleared."""
    createdTime: Timestamp


class ClusterMessageReply(TypedDict):
    clusterMessage: ShownClusterMessage | None


def shown(message: ClusterMessage | None) -> ShownClusterMessage | None:
    if message is None:
        return None
    return {
        "message": message.text,
        "startTime": time(message.starts_at),
        "endTime": time(message.ends_at),
        "createdTime": time(message.created_at),
    }


@router.get("/api/v1/master/cluster_message")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def get_cluster_message(api: TheApi) -> Reply[ClusterMessageReply]:
    """Its time may not have come yet; one that is over is null."""
    return reply({"clusterMessage": shown(api.services.messages.current())})


@router.put("/api/v1/master/cluster_message")
@permit(Action.ADMINISTRATE_CLUSTER, CLUSTER)
async def set_cluster_message(
    body: SetClusterMessage, principal: Caller, api: TheApi
) -> Reply[Empty]:
    message = new_message(
        body.message,
        body.start_time,
        ends_at=body.end_time,
        duration=body.duration or "",
        now=api.services.clock.now(),
    )
    await api.services.messages.set(message, by=principal)
    return reply()


@router.delete("/api/v1/master/cluster_message")
@permit(Action.ADMINISTRATE_CLUSTER, CLUSTER)
async def clear_cluster_message(principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.messages.clear(by=principal)
    return reply()
