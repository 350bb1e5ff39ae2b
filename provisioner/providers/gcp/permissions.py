"""The permissions behind the calls of the provider. Its tests compare this with what they see asked."""

from __future__ import annotations

from windlass.base.permissions import Permission, Reach, permissions

PERMISSIONS: tuple[Permission, ...] = (
    *permissions(
        {
            "compute.regions.get": "ask for no more than quotas have left",
            "compute.zones.list": "learn the zones of the region",
            "compute.machineTypes.get": "learn CPUs and memory of types",
            "compute.acceleratorTypes.get": "learn which zone has which GPU",
            "compute.instances.list": "list the machines",
            "compute.instances.get": "look at one machine",
            "compute.zoneOperations.get": "follow launches and their ends",
            "compute.zoneOperations.list": "find the machines of a launch",
            "compute.images.useReadOnly": "boot the image",
        }
    ),
    *permissions(
        {
            "compute.instances.create": "launch machines",
            "compute.disks.create": "make their disks",
            "compute.subnetworks.use": "connect them",
            "compute.instances.setMetadata": "give them user data",
            "compute.instances.setServiceAccount": "give them their account",
        },
        reach=Reach.LAUNCH,
    ),
    *permissions(
        {"compute.subnetworks.useExternalIp": "give them addresses"},
        reach=Reach.LAUNCH,
        feature="network_interface.external_ip",
    ),
    *permissions(
        {
            "compute.instances.setLabels": "label them",
            "compute.disks.setLabels": "label their disks",
            "compute.instances.setTags": "tag them",
        },
        reach=Reach.TAG_AT_LAUNCH,
    ),
    *permissions({"iam.serviceAccounts.actAs": "give them their account"}, reach=Reach.AGENT_ROLE),
    *permissions(
        {
            "compute.instances.delete": "end machines",
            "compute.instances.getSerialPortOutput": "show why a boot failed",
        },
        reach=Reach.OWN_MACHINES,
    ),
    *permissions(
        {
            "compute.instances.stop": "stop idle machines",
            "compute.instances.start": "start stopped machines",
        },
        reach=Reach.OWN_MACHINES,
        feature="stopped_agents",
    ),
    *permissions(
        {"compute.resourcePolicies.create": "make the placement policy"}, feature="placement_policy"
    ),
    *permissions(
        {"compute.resourcePolicies.use": "launch machines close to each other"},
        reach=Reach.LAUNCH,
        feature="placement_policy",
    ),
    *permissions({"compute.reservations.list": "see what is reserved"}, feature="reservations"),
    *permissions(
        {
            "compute.images.create": "make images of machines (det fleet bake)",
            "compute.images.setLabels": "label images",
            "compute.images.get": "see how far an image is",
            "compute.images.delete": "remove images that failed",
            "compute.disks.useReadOnly": "read the disks of images",
        },
        feature="bake",
    ),
)
