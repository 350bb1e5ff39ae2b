"""Clusters as `list` shows them: from folders here, from the bucket of states, and by their tag in the cloud. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from windlass.base.formats.json_types import JsonMapping, JsonObject
from windlass.deploy.cloud.state_folder import DeployPhase, Record

_PHASES = {
    DeployPhase.MAKING: "half made: run up again, or down",
    DeployPhase.UP: "up",
    DeployPhase.REMOVING: "half removed: run down again",
    DeployPhase.DOWN: "down: its data is left",
}
_BY_TAG = "found by its tag: its state is elsewhere"
_BY_TAG_DOWN = "found by its tag, without a master: its state is elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """One cluster, as one place knows it."""

    cluster_id: str
    region: str = ""
    state: str = ""
    master: str = ""
    """Its address."""
    machines: int | None = None
    """Those of pools; None: the cloud was not asked."""
    place: str = ""
    """Folder or bucket of its state."""

    def document(self) -> JsonObject:
        shown = asdict(self)
        return {"clusterId": shown.pop("cluster_id"), **shown}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """What the cloud has with the tag of one cluster."""

    cluster_id: str
    region: str
    master: str = ""
    """Address of the machine of the master; empty: there is none."""
    machines: int = 0


def recorded(cluster_id: str, record: Record, variables: JsonMapping, place: str) -> FoundCluster:
    return FoundCluster(
        cluster_id=cluster_id,
        region=str(variables.get("region", "")),
        state=_PHASES[record.phase],
        master=record.address,
        place=place,
    )


def merged(known: Iterable[FoundCluster], tagged: Sequence[Tagged] | None) -> list[FoundCluster]:
    """One of each cluster and region. What was noted in `known` first counts; None: the cloud was not asked."""
    rows: dict[tuple[str, str], FoundCluster] = {}
    for found in known:
        rows.setdefault((found.cluster_id, found.region), found)
    if tagged is not None:
        rows = {key: replace(found, machines=0) for key, found in rows.items()}
    for each in tagged or ():
        key = (each.cluster_id, each.region)
        by_tag = _BY_TAG if each.master else _BY_TAG_DOWN
        found = rows.get(key) or FoundCluster(
            cluster_id=each.cluster_id, region=each.region, state=by_tag, master=each.master
        )
        rows[key] = replace(found, machines=each.machines)
    return [rows[key] for key in sorted(rows)]
