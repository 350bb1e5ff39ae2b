"""What a provider may ask of its cloud: one row for each call that it makes, from which policies are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Reach(StrEnum):
    """On what a call is allowed."""

    ALL = "all"
    """Reads that clouds allow on everything or on nothing."""
    EVERYWHERE = "everywhere"
    """Reads of what is in no region, or in another than the machines."""
    LAUNCH = "launch"
    """Makes machines: only such as carry the cluster's tag."""
    TAG_AT_LAUNCH = "tag_at_launch"
    """Tags, together with a launch only."""
    OWN_MACHINES = "own_machines"
    """Changes or ends machines: only those with the cluster's tag."""
    MAKE_IMAGE = "make_image"
    """Makes images of machines with the cluster's tag, which carry it, too."""
    OWN_IMAGES = "own_images"
    """Removes images and snapshots: only those with the cluster's tag."""
    AGENT_ROLE = "agent_role"
    """Gives machines their role: only that of the cluster."""
    SPOT_ROLE = "spot_role"
    """Makes the role that the cloud's own service needs for spot machines: only that one."""
    VOLUME_KEYS = "volume_keys"
    """Uses keys: only by the cloud's own service, for disks of machines."""
    VOLUME_GRANTS = "volume_grants"
    """Lets the cloud's own service use such a key, and nobody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    action: str
    """As the cloud's policies name it."""
    why: str
    """Completes "is needed to "."""
    reach: Reach = Reach.ALL
    feature: str = ""
    """Only where a provider section asks for it, by the name of its key; `bake`: `det fleet bake`."""


def permissions(
    to: Mapping[str, str], *, reach: Reach = Reach.ALL, feature: str = ""
) -> tuple[Permission, ...]:
    """`to`: action -> what for, of actions with the same reach and feature."""
    return tuple(
        Permission(action=action, why=why, reach=reach, feature=feature)
        for action, why in to.items()
    )
