"""The permissions behind the calls of the provider. Its tests compare this with what they see asked."""

from __future__ import annotations

from windlass.base.permissions import Permission, Reach

PERMISSIONS = (
    Permission(action="compute.regions.get", why="ask for no more than quotas have left"),
    Permission(action="compute.zones.list", why="learn the zones of the region"),
    Permission(action="compute.machineTypes.get", why="learn CPUs and memory of types"),
    Permission(action="compute.acceleratorTypes.get", why="learn which zone has which GPU"),
    Permission(action="compute.instances.list", why="list the machines"),
    Permission(action="compute.instances.get", why="look at one machine"),
    Permission(action="compute.zoneOperations.get", why="follow launches and their ends"),
    Permission(action="compute.zoneOperations.list", why="find the machines of a launch"),
    Permission(action="compute.images.useReadOnly", why="boot the image"),
    Permission(action="compute.instances.create", why="launch machines", reach=Reach.LAUNCH),
    Permission(action="compute.disks.create", why="make their disks", reach=Reach.LAUNCH),
    Permission(action="compute.subnetworks.use", why="connect them", reach=Reach.LAUNCH),
    Permission(
        action="compute.subnetworks.useExternalIp",
        why="give them addresses",
        reach=Reach.LAUNCH,
        feature="network_interface.external_ip",
    ),
    Permission(
        action="compute.instances.setMetadata", why="give them user data", reach=Reach.LAUNCH
    ),
    Permission(action="compute.instances.setLabels", why="label them", reach=Reach.TAG_AT_LAUNCH),
    Permission(
        action="compute.disks.setLabels", why="label their disks", reach=Reach.TAG_AT_LAUNCH
    ),
    Permission(action="compute.instances.setTags", why="tag them", reach=Reach.TAG_AT_LAUNCH),
    Permission(
        action="compute.instances.setServiceAccount",
        why="give them their account",
        reach=Reach.LAUNCH,
    ),
    Permission(
        action="iam.serviceAccounts.actAs", why="give them their account", reach=Reach.AGENT_ROLE
    ),
    Permission(action="compute.instances.delete", why="end machines", reach=Reach.OWN_MACHINES),
    Permission(
        action="compute.instances.getSerialPortOutput",
        why="show why a boot failed",
        reach=Reach.OWN_MACHINES,
    ),
    Permission(
        action="compute.instances.stop",
        why="stop idle machines",
        reach=Reach.OWN_MACHINES,
        feature="stopped_agents",
    ),
    Permission(
        action="compute.instances.start",
        why="start stopped machines",
        reach=Reach.OWN_MACHINES,
        feature="stopped_agents",
    ),
    Permission(
        action="compute.resourcePolicies.create",
        why="make the placement policy",
        feature="placement_policy",
    ),
    Permission(
        action="compute.resourcePolicies.use",
        why="launch machines close to each other",
        reach=Reach.LAUNCH,
        feature="placement_policy",
    ),
    Permission(
        action="compute.reservations.list", why="see what is reserved", feature="reservations"
    ),
    Permission(
        action="compute.images.create",
        why="make images of machines (det fleet bake)",
        feature="bake",
    ),
    Permission(action="compute.images.setLabels", why="label images", feature="bake"),
    Permission(action="compute.images.get", why="see how far an image is", feature="bake"),
    Permission(action="compute.images.delete", why="remove images that failed", feature="bake"),
    Permission(action="compute.disks.useReadOnly", why="read the disks of images", feature="bake"),
)
