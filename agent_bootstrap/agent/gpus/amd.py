"""AMD GPUs by the tools of ROCm: `amd-smi`, or `rocm-smi` of older releases."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.gpus.gpu import FoundGpus, Gpu
from agent_bootstrap.protocol import SlotKind

AMD_SMI = ("amd-smi", "static", "--asic", "--bus", "--json")
ROCM_SMI = (
    *("rocm-smi", "--showuniqueid", "--showproductname", "--showbus", "--showserial"),
    "--json",
)
QUERY_LIMIT_S = 30.0
"""The tools take seconds on a node with eight GPUs."""
PCI_DEVICES = Path("/sys/bus/pci/devices")

Ask = Callable[[Sequence[str]], str | None]
"""Standard output of a command; None if there is no such program. Raises OSError, TimeoutExpired."""


def amd_gpus(ask: Ask | None = None, pci_devices: Path = PCI_DEVICES) -> FoundGpus:
    """Never raises: what cannot be read becomes a note."""
    ask = ask or _ask
    notes = []
    for command, read in ((AMD_SMI, _of_amd_smi), (ROCM_SMI, _of_rocm_smi)):
        try:
            said = ask(command)
            if said is None:
                continue
            cards = list(read(json.loads(said)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            notes.append(f"{command[0]} does not say what GPUs there are: {error}")
            continue
        except subprocess.TimeoutExpired:
            notes.append(f"{command[0]} did not answer within {QUERY_LIMIT_S:.0f} s")
            continue
        gpus = (_gpu(*card, pci_devices) for card in cards)
        return FoundGpus(gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)))
    absent = "" if notes else "neither amd-smi nor rocm-smi is installed"
    return FoundGpus(notes=tuple(notes), absent=absent)


def _ask(command: Sequence[str]) -> str | None:
    program = shutil.which(command[0]) or shutil.which(command[0], path="/opt/rocm/bin")
    if program is None:
        return None
    done = subprocess.run(
        [program, *command[1:]], capture_output=True, text=True, timeout=QUERY_LIMIT_S, check=False
    )
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise OSError(words[-1] if words else f"exit code {done.returncode}")
    return done.stdout


Card = tuple[int, str, str, str, str]
"""Index, unique id, name, PCI address, serial number."""


def _of_amd_smi(said: Any) -> Iterator[Card]:
    # ROCm 7 puts the list into a mapping.
    for card in said["gpu_data"] if isinstance(said, dict) else said:
        asic = card["asic"]
        unique = str(asic.get("asic_serial", ""))
        yield int(card["gpu"]), unique, str(asic["market_name"]), str(card["bus"]["bdf"]), ""


def _of_rocm_smi(said: Any) -> Iterator[Card]:
    for key, card in said.items():
        if not key.startswith("card"):
            continue
        value = {name.lower(): str(text) for name, text in card.items()}
        yield (
            int(key.removeprefix("card")),
            value.get("unique id", ""),
            value.get("card series", ""),
            value.get("pci bus", ""),
            value.get("serial number", ""),
        )


def _gpu(
    index: int, unique: str, name: str, pci: str, serial: str, pci_devices: Path = PCI_DEVICES
) -> Gpu:
    return Gpu(
        slot=index,
        kind=SlotKind.ROCM,
        index=index,
        uuid=_uuid(unique) or f"PCI-{pci.lower()}",
        name=name,
        pci=pci,
        serial="" if serial in ("N/A", "None") else serial,
        nodes=_nodes(pci_devices / pci.lower() / "drm"),
    )


def _uuid(unique: str) -> str:
    """As ROCR_VISIBLE_DEVICES takes it: GPU- and sixteen digits. Consumer cards have none."""
    try:
        number = int(unique, 16)
    except ValueError:
        return ""
    return f"GPU-{number:016x}" if number else ""


def _nodes(drm: Path) -> tuple[str, ...] | None:
    try:
        names = sorted(path.name for path in drm.iterdir())
    except OSError:
        return None
    return tuple(f"/dev/dri/{name}" for name in names if name.startswith(("card", "renderD")))
