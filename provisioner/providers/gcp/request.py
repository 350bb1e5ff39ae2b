"""The properties of the machines of one launch, all but their labels and user data. Kept with the intent. Pure."""

from __future__ import annotations

from copy import deepcopy

from provisioner.providers.gcp.catalogue import TypeFacts
from provisioner.providers.gcp.names import ATTACHED
from provisioner.providers.gcp.offers import image_of
from provisioner.providers.gcp.options import MachineOptions
from provisioner.types import Market, OfferKey
from windlass.base.json_types import JsonMapping, JsonObject

MODELS = {
    Market.SPOT: "SPOT",
    Market.QUEUED: "FLEX_START",
    Market.RESERVED: "STANDARD",
    Market.ON_DEMAND: "STANDARD",
}
RESERVATION_KEY = "compute.googleapis.com/reservation-name"


def properties(
    key: OfferKey, options: MachineOptions, facts: TypeFacts, project: str
) -> JsonObject:
    """Plain JSON, in the API's own names. Everything is laid over `base_config`; its lists are kept and added to."""
    made: JsonObject = deepcopy(dict(options.base))
    made["machineType"] = options.machine_type
    if options.gpu in ATTACHED:
        made["guestAccelerators"] = [
            {"acceleratorType": options.gpu, "acceleratorCount": options.gpus}
        ]
    made["disks"] = [_boot_disk(options, facts), *made.get("disks", ())]
    made["networkInterfaces"] = _interfaces(key, options, made, project)
    made["scheduling"] = {**made.get("scheduling", {}), **_scheduling(key.market, options)}
    made["labels"] = {**made.get("labels", {}), **dict(options.labels)}
    if options.network_tags:
        tags = made.get("tags", {})
        made["tags"] = {**tags, "items": [*tags.get("items", ()), *options.network_tags]}
    if options.service_account:
        account = {"email": options.service_account, "scopes": list(options.scopes)}
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


def _boot_disk(options: MachineOptions, facts: TypeFacts) -> JsonMapping:
    return {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": image_of(options, facts),
            "diskSizeGb": str(options.disk_gib),
            "diskType": options.disk_type,
        },
    }


def _interfaces(
    key: OfferKey, options: MachineOptions, base: JsonMapping, project: str
) -> list[JsonMapping]:
    """Those of `base_config`, then ours; without any the project's default network."""
    others = list(base.get("networkInterfaces", ()))
    if others and not (options.network or options.subnetwork):
        return others
    own: JsonObject = {}
    if options.network:
        own["network"] = _full(options.network, f"projects/{project}/global/networks")
    if options.subnetwork:
        where = f"projects/{project}/regions/{key.region}/subnetworks"
        own["subnetwork"] = _full(options.subnetwork, where)
    if not own:
        own["network"] = f"projects/{project}/global/networks/default"
    if options.external_address:
        own["accessConfigs"] = [
            {"name": "External NAT", "type": "ONE_TO_ONE_NAT", "networkTier": "PREMIUM"}
        ]
    return [*others, own]


def _full(name: str, where: str) -> str:
    return name if "/" in name else f"{where}/{name}"


def _scheduling(market: Market, options: MachineOptions) -> JsonMapping:
    """Machines with GPUs cannot be moved; one that Google stops is not started again, but deleted where it can be."""
    ours: JsonObject = {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": MODELS.get(market, "STANDARD"),
    }
    if market is Market.SPOT:
        ours["preemptible"] = True
    longest_s = options.lifetime_s(market)
    if longest_s is not None:
        ours["maxRunDuration"] = {"seconds": str(round(longest_s))}
    if market is Market.SPOT or longest_s is not None:
        ours["instanceTerminationAction"] = "DELETE"
    return ours
