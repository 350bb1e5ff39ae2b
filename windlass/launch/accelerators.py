"""Which GPUs this container really has."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.core._info import ClusterInfo
from windlass.core._session import TaskSession

QUERY_TIMEOUT_S = 20.0
"""nvidia-smi takes seconds on a node whose driver is not resident."""


_VARIABLES = {"cuda": "CUDA_VISIBLE_DEVICES", "rocm": "ROCR_VISIBLE_DEVICES"}


@dataclass(frozen=True, slots=True)
class Accelerators:
    """`kind` is "cpu", "cuda" or "rocm"."""

    kind: str
    uuids: tuple[str, ...] = ()

    def to_json(self) -> dict[str, list[str]]:
        return {"gpu_uuids": list(self.uuids)}


def find_accelerators(slot_ids: Sequence[int], environ: Mapping[str, str]) -> Accelerators:
    """GPUs of this task. The agent's variables are believed when they hold UUIDs; else the tools are asked."""
    visible = {kind: environ.get(variable) for kind, variable in _VARIABLES.items()}
    if not slot_ids or "" in visible.values():
        return Accelerators("cpu")
    for kind, names in visible.items():
        named = [word.strip() for word in (names or "").split(",")]
        if all(word.startswith(("GPU-", "MIG-")) for word in named):
            return Accelerators(kind, tuple(named))
    cuda = _ask("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader").split()
    if cuda:
        return Accelerators("cuda", tuple(cuda))
    rocm = _rocm_uuids(_ask("rocm-smi", "--showuniqueid", "--json"))
    return Accelerators("rocm", rocm) if rocm else Accelerators("cpu")


def report_accelerators(
    session: TaskSession, info: ClusterInfo, found: Accelerators, container_id: str
) -> None:
    data = {
        "containerId": container_id,
        "acceleratorType": found.kind,
        "acceleratorUuids": list(found.uuids),
        "allocationId": info.allocation_id,
        "nodeName": info.agent_id,
        "taskId": info.task_id,
    }
    session.post(
        f"/api/v1/allocations/{info.allocation_id}/acceleratorData",
        {"allocationId": info.allocation_id, "acceleratorData": data},
    )


def _ask(tool: str, *arguments: str) -> str:
    """The output of a tool; nothing if it is missing, fails or hangs: a task without GPU information still runs."""
    path = shutil.which(tool)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _rocm_uuids(output: str) -> tuple[str, ...]:
    try:
        cards = json.loads(output) if output else {}
    except ValueError:
        return ()
    return tuple(
        card["Unique ID"]
        for card in cards.values()
        if isinstance(card, dict) and "Unique ID" in card
    )
