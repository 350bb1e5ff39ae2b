"""What the containers of an allocation ask and tell: who they are, who is there, when to leave."""

from __future__ import annotations

from typing import Annotated, NotRequired

from fastapi import APIRouter, Query, Request
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller
from master.api.http.held import hold
from master.api.permits import allocation, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, FreeObject, Int32, Text
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute, HotRoute
from master.api.services import ApiContext, TheApi
from master.api.tasks.wire import ends_at
from master.api.values import Timestamp, time
from master.auth.actions import Action
from windlass.base.formats.json_types import JsonObject


class RendezvousInfo(TypedDict):
    addresses: list[str]
    slots: list[int]
    rank: int


class RendezvousReply(TypedDict):
    rendezvousInfo: RendezvousInfo


class GatheredReply(TypedDict):
    data: list[JsonObject]


class PreemptionReply(TypedDict):
    preempt: bool
    deadline: NotRequired[Timestamp | None]
    """Our own: when it will be killed."""
    reason: NotRequired[str]
    """Our own: why."""


_PREFIX = "/api/v1/allocations/{allocation_id}"
router = APIRouter(prefix=_PREFIX, route_class=ApiRoute, tags=["allocations"])
hot = APIRouter(prefix=_PREFIX, route_class=HotRoute, tags=["allocations"])

DEFAULT_POLL_S = 60.0


class ToldAccelerators(Body):
    container_id: Text = ""
    node_name: Text = ""
    accelerator_type: Text = ""
    accelerator_uuids: tuple[Text, ...] = ()


class PostAcceleratorData(Body):
    accelerator_data: ToldAccelerators = Field(default_factory=ToldAccelerators)


@router.post("/acceleratorData")
@permit(Action.REPORT, allocation("allocation_id"))
async def accelerator_data(
    allocation_id: str,
    body: PostAcceleratorData,
    api: TheApi,
) -> Reply[Empty]:
    data = body.accelerator_data
    await api.services.allocations.record_accelerators(
        allocation_id,
        data.container_id,
        data.node_name,
        data.accelerator_type,
        list(data.accelerator_uuids),
    )
    return reply()


@router.get("/resources/{resources_id}/rendezvous")
@permit(Action.REPORT, allocation("allocation_id"))
async def rendezvous(
    request: Request,
    allocation_id: str,
    resources_id: str,
    api: TheApi,
) -> Reply[RendezvousReply]:
    work = api.services.allocations.rendezvous(allocation_id, resources_id)
    info = await hold(request, api.closing, work)
    return reply(
        {
            "rendezvousInfo": {
                "addresses": list(info.addresses),
                "slots": list(info.slots),
                "rank": info.rank,
            }
        }
    )


class AllGather(Body):
    request_uuid: Annotated[Text, Field(min_length=1, max_length=200)]
    num_peers: Annotated[int, Field(ge=1, le=100_000)] = 1
    data: FreeObject = Field(default_factory=dict)


@router.post("/all_gather")
@permit(Action.REPORT, allocation("allocation_id"))
async def all_gather(
    request: Request,
    allocation_id: str,
    body: AllGather,
    api: TheApi,
) -> Reply[GatheredReply]:
    work = api.services.allocations.all_gather(
        allocation_id, body.request_uuid, body.num_peers, body.data
    )
    return reply({"data": await hold(request, api.closing, work)})


@router.post("/notify_container_running")
@permit(Action.REPORT, allocation("allocation_id"))
async def container_running(allocation_id: str, api: TheApi) -> Reply[GatheredReply]:
    """Agents tell what runs; the call exists for containers that do not have one."""
    _require_running(allocation_id, api)
    return reply({"data": []})


@router.post("/proxy_address")
@permit(Action.REPORT, allocation("allocation_id"))
async def proxy_address(allocation_id: str, api: TheApi) -> Reply[Empty]:
    _require_running(allocation_id, api)
    return reply()


@router.post("/waiting")
@permit(Action.REPORT, allocation("allocation_id"))
async def waiting(allocation_id: str, api: TheApi) -> Reply[Empty]:
    _require_running(allocation_id, api)
    return reply()


def _require_running(allocation_id: str, api: ApiContext) -> None:
    """For what changes nothing here: the allocation must still run."""
    api.services.allocations.state(allocation_id)


class Ready(QueryModel):
    os_user: Annotated[Text, Field(max_length=255)] = ""
    """Our own: the name of whom it runs as."""


class ReadyReply(TypedDict):
    endsAt: Timestamp | None
    """Our own: when the time of its machines is over, such as that of its batch job."""


@router.post("/ready")
@permit(Action.REPORT, allocation("allocation_id"))
async def ready(
    allocation_id: str, query: Annotated[Ready, Query()], api: TheApi
) -> Reply[ReadyReply]:
    allocations = api.services.allocations
    await allocations.mark_ready(allocation_id, query.os_user)
    agents = {agent.id: agent for agent in api.services.cluster.agents()}
    state = allocations.open_states().get(allocation_id)
    return reply({"endsAt": time(ends_at(state, agents)) if state is not None else None})


class AnotherPort(Body):
    variable: Text
    taken: Int32
    """The port on which somebody else listens."""


class PortReply(TypedDict):
    port: int


@router.post("/another_port")
@permit(Action.REPORT, allocation("allocation_id"))
async def another_port(allocation_id: str, body: AnotherPort, api: TheApi) -> Reply[PortReply]:
    """Our own: a service of the task cannot have the port that it was given."""
    port = await api.services.allocations.another_port(allocation_id, body.variable, body.taken)
    return reply({"port": port})


@router.post("/resources/{resources_id}/daemon")
@permit(Action.REPORT, allocation("allocation_id"))
async def daemon(
    allocation_id: str,
    resources_id: str,
    api: TheApi,
) -> Reply[Empty]:
    await api.services.allocations.mark_daemon(allocation_id, resources_id)
    return reply()


class Poll(QueryModel):
    timeout_seconds: Annotated[float, Field(ge=0)] = DEFAULT_POLL_S


@hot.get("/signals/preemption")
@permit(Action.REPORT, allocation("allocation_id"))
async def preemption(
    request: Request,
    allocation_id: str,
    query: Annotated[Poll, Query()],
    principal: Caller,
    api: TheApi,
) -> Reply[PreemptionReply]:
    work = api.services.allocations.preemption_signal(
        allocation_id, query.timeout_seconds, by_task=principal.task_id is not None
    )
    asked = await hold(request, api.closing, work)
    if asked is None:
        return reply({"preempt": False})
    return reply({"preempt": True, "deadline": time(asked.deadline), "reason": asked.reason})


@router.post("/signals/ack_preemption")
@permit(Action.REPORT, allocation("allocation_id"))
async def acknowledge(allocation_id: str, api: TheApi) -> Reply[Empty]:
    await api.services.allocations.acknowledge_preemption(allocation_id)
    return reply()


@router.post("/signals/pending_preemption")
@permit(Action.REPORT, allocation("allocation_id"))
async def pending(allocation_id: str, api: TheApi) -> Reply[Empty]:
    await api.services.allocations.preempt(allocation_id, "its slots were announced to go away")
    return reply()
