"""A GPU as the agent knows it: its slot, what it is called, and which device nodes are its own."""

from __future__ import annotations

from dataclasses import dataclass

from agent_bootstrap.protocol import SlotKind

FIRST_SLICE_SLOT, SLICES_PER_GPU = 1000, 10
"""Slice 2 of GPU 3 is slot 1032. NVIDIA cuts a GPU into at most 7 slices."""


def slice_slot(index: int, number: int) -> int:
    return FIRST_SLICE_SLOT + SLICES_PER_GPU * index + number


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, or one slice of a GPU in MIG mode."""

    slot: int
    """Its index in the machine, whatever is hidden; of slices see `slice_slot`."""
    kind: SlotKind
    index: int
    """Of the whole GPU, as the vendor's tools count."""
    uuid: str
    """What CUDA or ROCr is told. Without a serial number of its own: the PCI address, or what the batch system said."""
    name: str = ""
    memory_mib: int | None = None
    """None: unknown."""
    pci: str = ""
    serial: str = ""
    card: str = ""
    """The UUID of the whole GPU, if this is a slice."""
    nodes: tuple[str, ...] | None = None
    """The device nodes that only it needs. None: nobody could say."""

    @property
    def whole(self) -> str:
        """The UUID of the GPU that it is, or is a part of."""
        return self.card or self.uuid

    def is_called(self, name: str) -> bool:
        """True for its index, serial or PCI address, the beginning of a UUID, and `3:2` for slice 2 of GPU 3.

        What names a GPU in MIG mode names all of its slices.
        """
        if name.isdigit():
            return name in (str(self.index), self.serial)
        wanted = name.lower()
        if wanted.startswith(("gpu-", "mig-")):
            return any(uuid.lower().startswith(wanted) for uuid in (self.uuid, self.card))
        index, _, part = wanted.partition(":")
        if index.isdigit() and part.isdigit():
            is_slice = bool(self.card) and slice_slot(int(index), int(part)) == self.slot
            return is_slice and int(index) == self.index
        return bool(self.pci) and self.pci.lower().endswith(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGpus:
    """The GPUs that one vendor's tools show."""

    gpus: tuple[Gpu, ...] = ()
    notes: tuple[str, ...] = ()
    """What an operator should mend."""
    absent: str = ""
    """Why there are none, which is no fault of a machine without GPUs."""
