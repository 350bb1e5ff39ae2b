"""The pages that Prometheus reads: the published ones, with families of our own. For whoever is logged in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import chain

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.cluster.metric_families import ExperimentLabels, Picture, own, page, published
from master.api.permits import CLUSTER, VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.windlass.wire import GONE
from master.auth.actions import Action
from master.core.reasons import ReasonKind
from master.core.visibility import Visibility
from rm_backends.views import AgentView
from windlass.base.errors import NotFound

EXPORTER_PORTS = (8080, 9400)
"""cAdvisor's and the DCGM exporter's."""


class ScrapeTargets(TypedDict):
    """One entry of Prometheus' `http_sd_config`, with the published labels."""

    targets: list[str]
    labels: dict[str, str]


def scrape_targets(agents: Iterable[AgentView]) -> list[ScrapeTargets]:
    """One for each agent whose address is known."""
    return [
        ScrapeTargets(
            targets=[f"{_host(agent.address)}:{port}" for port in EXPORTER_PORTS],
            labels={"det_agent_id": agent.id, "det_resource_pool": agent.pool},
        )
        for agent in sorted(agents, key=lambda agent: agent.id)
        if agent.address
    ]


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


router = APIRouter(route_class=ApiRoute, tags=["monitoring"])


@router.get("/prom/det-state-metrics", response_class=PlainTextResponse)
@permit(Action.VIEW_CLUSTER, VISIBLE)
async def state_metrics(visible: Visible, api: TheApi) -> Response:
    """Machines, money, slots and queues; and which container belongs to which experiment."""
    _require(api)
    picture = await _picture(api, visible)
    text = await asyncio.to_thread(page, chain(published(picture), own(picture)))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@router.get("/prom/det-http-sd-config")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def exporters(api: TheApi) -> Reply[list[ScrapeTargets]]:
    """The exporters on the machines of all agents, for Prometheus' discovery by HTTP."""
    _require(api)
    return reply(scrape_targets(api.services.cluster.agents()))


@router.get("/debug/prom/metrics", response_class=PlainTextResponse)
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def process_metrics(api: TheApi) -> Response:
    """Memory, CPU time, files and garbage of the master's process."""
    _require(api)
    return Response(generate_latest(_PROCESS), media_type=CONTENT_TYPE_LATEST)


_PROCESS = CollectorRegistry()
ProcessCollector(registry=_PROCESS)
PlatformCollector(registry=_PROCESS)
GCCollector(registry=_PROCESS)


def _require(api: ApiContext) -> None:
    if not api.services.config.observability.enable_prometheus:
        raise NotFound("page", "prometheus", ": observability.enable_prometheus is false")


async def _picture(api: ApiContext, visible: Visibility) -> Picture:
    services = api.services
    waiting: Counter[tuple[str, ReasonKind]] = Counter()
    pools = services.cluster.pools_view()
    for pool in pools:
        for kind, count in services.cluster.waiting_by_kind(pool.name).items():
            waiting[pool.name, kind] += count
        await asyncio.sleep(0)
    fleet = services.provisioner
    live = [e.state for e in services.experiments.all_live()]
    return Picture(
        pools=pools,
        agents=services.cluster.agents(),
        waiting=waiting,
        experiments=[
            ExperimentLabels(id=e.id, job_id=e.job_id, labels=tuple(e.config.labels))
            for e in live
            if services.jobs.is_visible(e.job_id, visible)
        ],
        instances=()
        if fleet is None
        else [view for view in fleet.instances() if view.state != GONE],
        cost=None if fleet is None else fleet.cost(),
        counters=None if fleet is None else fleet.counters,
    )
