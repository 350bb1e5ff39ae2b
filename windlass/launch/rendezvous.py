"""How the containers of one allocation learn of each other, by DET_RESOURCES_TYPE."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from windlass.base.errors import InvalidArgument
from windlass.core._info import ClusterInfo, RendezvousInfo
from windlass.core._session import TaskSession


def rendezvous(
    session: TaskSession, info: ClusterInfo, environ: Mapping[str, str]
) -> RendezvousInfo:
    """Wait until all containers are there. The master may hold the answer for as long as it takes."""
    match environ.get("DET_RESOURCES_TYPE", "docker-container"):
        case "docker-container":
            return _given_by_master(session, info, _required(environ, "DET_RESOURCES_ID"))
        case "slurm-job":
            rank = int(_required(environ, "SLURM_PROCID"))
            own = {"rank": rank, "rendezvous_ip": _own_address(), "slots": len(info.slot_ids)}
            peers = int(_required(environ, "SLURM_NPROCS"))
            return _gathered(session, info, own, peers, key="rank")
        case "k8s-job":
            own = {
                "request_uuid": _new_id(),
                "rendezvous_ip": _required(environ, "DET_KUBERNETES_POD_IP"),
                "slots": len(info.slot_ids),
            }
            peers = int(_required(environ, "DET_KUBERNETES_JOB_PARALLELISM"))
            return _gathered(session, info, own, peers, key="request_uuid")
        case other:
            raise InvalidArgument(
                f"DET_RESOURCES_TYPE is {other!r}; known are docker-container, slurm-job and k8s-job"
            )


def _given_by_master(session: TaskSession, info: ClusterInfo, resources_id: str) -> RendezvousInfo:
    path = f"/api/v1/allocations/{info.allocation_id}/resources/{resources_id}/rendezvous"
    met = session.request("GET", path, timeout_s=None)["rendezvousInfo"]
    return RendezvousInfo(list(met["addresses"]), int(met["rank"]), list(met["slots"]))


def _gathered(
    session: TaskSession, info: ClusterInfo, own: dict[str, Any], peers: int, *, key: str
) -> RendezvousInfo:
    body = {
        "allocationId": info.allocation_id,
        "requestUuid": own.get("request_uuid") or _new_id(),
        "numPeers": peers,
        "data": own,
    }
    path = f"/api/v1/allocations/{info.allocation_id}/all_gather"
    answers = session.request("POST", path, body=body, timeout_s=None)["data"]
    ordered = sorted(answers, key=lambda data: data[key])
    return RendezvousInfo(
        [data["rendezvous_ip"] for data in ordered],
        [data[key] for data in ordered].index(own[key]),
        [int(data["slots"]) for data in ordered],
    )


def _new_id() -> str:
    import uuid  # which imports much; containers of agents need none

    return str(uuid.uuid4())


def _own_address() -> str:
    return socket.gethostbyname(socket.gethostname())


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if not value:
        raise InvalidArgument(f"{name} is not set, and the rendezvous needs it")
    return value
