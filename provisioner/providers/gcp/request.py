"""The properties of the machines of one launch, all but their labels and user data. Kept with the intent. Pure."""

from __future__ import annotations

from copy import deepcopy

from provisioner.providers.gcp.catalogue import TypeFacts
from provisioner.providers.gcp.names import last
from provisioner.providers.gcp.offers import image_of
from provisioner.sections.gcp import GcpNetwork, GcpSection
from provisioner.types import Market, OfferKey
from windlass.base.formats.json_types import JsonMapping, JsonObject

MODELS = {
    Market.SPOT: "SPOT",
    Market.QUEUED: "FLEX_START",
    Market.RESERVED: "STANDARD",
    Market.ON_DEMAND: "STANDARD",
}
RESERVATION_KEY = "compute.googleapis.com/reservation-name"


def properties(key: OfferKey, section: GcpSection, facts: TypeFacts, project: str) -> JsonObject:
    """Plain JSON, in the API's own names. Everything is laid over `base_config`; its lists are kept and added to."""
    made: JsonObject = deepcopy(section.base_config)
    made["machineType"] = section.instance_type.machine_type
    gpu, gpus = section.instance_type.added
    if gpu:
        made["guestAccelerators"] = [{"acceleratorType": gpu, "acceleratorCount": gpus}]
    made["disks"] = [_boot_disk(section, facts), *made.get("disks", ())]
    made["networkInterfaces"] = _interfaces(key, section.network_interface, made, project)
    made["scheduling"] = {
        **made.get("scheduling", {}),
        **_scheduling(key.market, section.lifetime_s(key.market)),
    }
    made["labels"] = {**made.get("labels", {}), **section.all_labels}
    if section.network_tags:
        tags = made.get("tags", {})
        made["tags"] = {**tags, "items": [*tags.get("items", ()), *section.network_tags]}
    who = section.service_account
    if who.email:
        account = {"email": who.email, "scopes": list(who.scopes)}
        made["serviceAccounts"] = [*made.get("serviceAccounts", ()), account]
    if key.placement:
        policy = f"projects/{project}/regions/{key.region}/resourcePolicies/{key.placement}"
        made["resourcePolicies"] = [*made.get("resourcePolicies", ()), policy]
    if key.reservation:
        made["reservationAffinity"] = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": [key.reservation],
        }
    elif key.market is Market.QUEUED:
        made["reservationAffinity"] = {"consumeReservationType": "NO_RESERVATION"}
    return made


def _boot_disk(section: GcpSection, facts: TypeFacts) -> JsonMapping:
    return {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": image_of(section, facts),
            "diskSizeGb": str(section.boot_disk_size),
            "diskType": last(section.boot_disk_type),
        },
    }


def _interfaces(
    key: OfferKey, network: GcpNetwork, base: JsonMapping, project: str
) -> list[JsonMapping]:
    """Those of `base_config`, then ours; without any the project's default network."""
    others = list(base.get("networkInterfaces", ()))
    if others and not (network.network or network.subnetwork):
        return others
    own: JsonObject = {}
    if network.network:
        own["network"] = _full(network.network, f"projects/{project}/global/networks")
    if network.subnetwork:
        where = f"projects/{project}/regions/{key.region}/subnetworks"
        own["subnetwork"] = _full(network.subnetwork, where)
    if not own:
        own["network"] = f"projects/{project}/global/networks/default"
    if network.external_ip:
        own["accessConfigs"] = [
            {"name": "External NAT", "type": "ONE_TO_ONE_NAT", "networkTier": "PREMIUM"}
        ]
    return [*others, own]


def _full(name: str, where: str) -> str:
    return name if "/" in name else f"{where}/{name}"


def _scheduling(market: Market, longest_s: float | None) -> JsonMapping:
    """Machines with GPUs cannot be moved; one that Google stops is not started again, but deleted where it can be."""
    ours: JsonObject = {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": MODELS.get(market, "STANDARD"),
    }
    if market is Market.SPOT:
        ours["preemptible"] = True
    if longest_s is not None:
        ours["maxRunDuration"] = {"seconds": str(round(longest_s))}
    if market is Market.SPOT or longest_s is not None:
        ours["instanceTerminationAction"] = "DELETE"
    return ours
