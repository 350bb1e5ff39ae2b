"""Who this master is. Readable by anybody: every client asks this before it logs in."""

from __future__ import annotations

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.cluster import message
from master.api.enums import Product
from master.api.permits import CLUSTER, permit, public
from master.api.replies import Reply, reply
from master.api.roles.sight import shows_roles
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.auth.actions import Action
from master.config import masked
from windlass.base.formats.json_types import JsonObject


class Telemetry(TypedDict):
    enabled: bool
    otel_enabled: bool
    otel_endpoint: str


class Info(TypedDict):
    """The one reply in snake_case."""

    version: str
    windlass_version: str
    master_id: str
    cluster_id: str
    cluster_name: str
    telemetry: Telemetry
    sso_providers: None


class MasterReply(TypedDict):
    version: str
    windlassVersion: str
    masterId: str
    clusterId: str
    clusterName: str
    telemetryEnabled: bool
    ssoProviders: list[JsonObject]
    externalLoginUri: str
    externalLogoutUri: str
    branding: str
    rbacEnabled: bool
    product: Product
    featureSwitches: list[str]
    userManagementEnabled: bool
    strictJobQueueControl: bool
    hasCustomLogo: bool
    clusterMessage: message.ShownClusterMessage | None


class TelemetryReply(TypedDict):
    enabled: bool


class MasterConfigReply(TypedDict):
    config: JsonObject
    """Secrets are masked."""


router = APIRouter(route_class=ApiRoute, tags=["master"])


@router.get("/info")
@public
async def info(api: TheApi) -> Reply[Info]:
    who = api.services.info
    return reply(
        {
            "version": who.version,
            "windlass_version": who.windlass_version,
            "master_id": who.master_id,
            "cluster_id": who.cluster_id,
            "cluster_name": who.cluster_name,
            "telemetry": {"enabled": False, "otel_enabled": False, "otel_endpoint": ""},
            "sso_providers": None,
        }
    )


@router.get("/api/v1/master")
@public
async def get_master(api: TheApi) -> Reply[MasterReply]:
    who = api.services.info
    return reply(
        {
            "version": who.version,
            "windlassVersion": who.windlass_version,
            "masterId": who.master_id,
            "clusterId": who.cluster_id,
            "clusterName": who.cluster_name,
            "telemetryEnabled": False,
            "ssoProviders": [],
            "externalLoginUri": "",
            "externalLogoutUri": "",
            "branding": "determined",
            "rbacEnabled": shows_roles(api.services.config.security.authz),
            "product": Product.UNSPECIFIED,
            "featureSwitches": list(api.services.config.feature_switches),
            "userManagementEnabled": True,
            "strictJobQueueControl": api.services.config.security.authz.strict_job_queue_control,
            "hasCustomLogo": False,
            "clusterMessage": message.shown(api.services.messages.active()),
        }
    )


@router.get("/api/v1/master/telemetry")
@public
async def telemetry() -> Reply[TelemetryReply]:
    """Nothing is ever reported to anybody."""
    return reply({"enabled": False})


@router.get("/api/v1/master/config")
@permit(Action.VIEW_MASTER_CONFIG, CLUSTER)
async def config(api: TheApi) -> Reply[MasterConfigReply]:
    own, shown = api.services.own_log, masked(api.services.config)
    return reply({"config": {**shown, "log": {"level": own.level, "color": own.color}}})
