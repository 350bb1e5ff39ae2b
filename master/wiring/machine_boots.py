"""Wires what serves new machines while they boot: of clouds, and those that become images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from master.boots.outputs import BootOutputs
from master.boots.service import BootService, LaunchTokens
from master.boots.wheels import AgentWheels
from master.config import ResolvedPool
from master.wiring.boot_settings import SettingsOfLaunches, boot_settings
from provisioner.fleet.reconciler import Provisioner
from windlass.base.clock import Clock


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
