"""Who this master is, as it is shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.enums import Product
from windlass.base.json_types import JsonObject


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
    clusterMessage: JsonObject | None


class MasterConfigReply(TypedDict):
    config: JsonObject
    """Secrets are masked."""
