"""Wires what serves new machines while they boot: of clouds, and those that become images."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from agent_bootstrap.scripts.boot_files import BootSettings
from master.boots.outputs import BootOutputs
from master.boots.service import BootService, LaunchTokens
from master.boots.wheels import AgentWheels
from master.config import ResolvedPool
from master.wiring.aws import accounts_of
from master.wiring.gcp import sites_of
from provisioner.fleet.reconciler import Provisioner
from provisioner.sections.aws import AwsMachines
from provisioner.sections.cloud import CloudSection
from provisioner.sections.gcp import GcpMachines
from provisioner.types import OfferKey
from windlass.base.clock import Clock
from windlass.base.errors import InvalidState
from windlass.base.formats.image_reference import DEFAULT_REGISTRY

DOCKER_HUB = "https://index.docker.io/v1/"
Kind: TypeAlias = tuple[str, str, str]
"""Pool, provider and instance type: no two sections have the same."""


def boot_settings(pools: Sequence[ResolvedPool]) -> Mapping[Kind, BootSettings]:
    return {kind: _settings(pool, section) for kind, pool, section in _sections(pools)}


class SettingsOfLaunches:
    def __init__(
        self,
        made: Mapping[Kind, BootSettings],
        bought: Callable[[str], OfferKey | None],
    ) -> None:
        """`bought`: what a launch bought."""
        self._made = made
        self._bought = bought

    def __call__(self, pool: str, launch_id: str) -> BootSettings:
        """Raises InvalidState where the pool's sections have changed since."""
        of_pool = {kind: settings for kind, settings in self._made.items() if kind[0] == pool}
        if not of_pool:
            return BootSettings()
        key = self._bought(launch_id)
        found = key and of_pool.get((pool, key.provider, key.instance_type))
        if found:
            return found
        if len(of_pool) == 1:
            return next(iter(of_pool.values()))
        raise InvalidState(
            f"pool {pool} has several providers, and none of them is what launch {launch_id} was made for"
        )


ALONE: Mapping[str, str | bool] = {"alone_ttl": "30m", "alone_ends_machine": True}
"""A machine that has lost its master for good ends itself, unless agent_config_file_contents says otherwise."""


def _settings(pool: ResolvedPool, section: CloudSection) -> BootSettings:
    return BootSettings(
        startup_script=section.startup_script,
        agent={
            **ALONE,
            **(section.agent_config_file_contents or {}),
            "task_metadata": pool.task_metadata,
        },
        machine_script=section.machine_script,
        image=section.software_image,
        bake_images=section.bake_images,
        registries=_registries(pool) if section.software_image or section.bake_images else {},
    )


def _registries(pool: ResolvedPool) -> Mapping[str, Mapping[str, str]]:
    """As Docker's config.json has logins. Docker's own registry has an older name there."""
    auth = pool.containers().registry_auth
    if auth is None:
        return {}
    text = auth.auth or base64.b64encode(f"{auth.username}:{auth.password or ''}".encode()).decode()
    login = {"auth": text} if auth.auth or auth.username else {}
    if auth.identitytoken:
        login["identitytoken"] = auth.identitytoken
    if auth.registrytoken:
        login["registrytoken"] = auth.registrytoken
    server = auth.serveraddress or DEFAULT_REGISTRY
    names = (server, DOCKER_HUB) if server in (DEFAULT_REGISTRY, "index.docker.io") else (server,)
    return dict.fromkeys(names, login)


def _sections(pools: Sequence[ResolvedPool]) -> Iterator[tuple[Kind, ResolvedPool, CloudSection]]:
    by_name = {pool.name: pool for pool in pools}
    bought: list[tuple[str, AwsMachines | GcpMachines]] = [
        *((account.name, each) for account, aws in accounts_of(pools).items() for each in aws),
        *((site.name, each) for site, gcp in sites_of(pools).items() for each in gcp),
    ]
    for provider, each in bought:
        yield (each.pool, provider, each.section.kind), by_name[each.pool], each.section


def machine_boots(
    pools: Sequence[ResolvedPool],
    provisioner: Provisioner | None,
    *,
    joins: LaunchTokens,
    data_dir: Path,
    clock: Clock,
) -> BootService:
    """`provisioner`: None where no pool has a provider."""
    return BootService(
        joins=joins,
        settings=SettingsOfLaunches(
            boot_settings(pools),
            _nothing_bought if provisioner is None else provisioner.bought_by,
        ),
        wheels=AgentWheels(data_dir / "wheels"),
        outputs=BootOutputs(data_dir / "boot-output"),
        clock=clock,
        note=None if provisioner is None else provisioner.note_boot,
        images=None if provisioner is None else provisioner.bakery,
    )


def _nothing_bought(launch_id: str) -> None:
    return None
