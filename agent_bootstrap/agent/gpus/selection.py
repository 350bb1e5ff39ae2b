"""Which of its GPUs a machine offers: those that its operator names, or those that a batch system gave to our job."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from agent_bootstrap.agent.gpus.gpu import Gpu
from agent_bootstrap.protocol import SlotKind

ALL = "all"
VARIABLES = {SlotKind.ROCM: "ROCR_VISIBLE_DEVICES", SlotKind.CUDA: "CUDA_VISIBLE_DEVICES"}
JOBS = {"SLURM_JOB_ID": "Slurm", "PBS_JOBID": "PBS"}
GLOBAL_INDICES = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
NO_DEVICES = ("NoDevFiles", "void", "none")
"""What batch systems and container engines write for no GPU at all."""
_INDEX = re.compile(r"\d{1,4}")


def batch_job(environ: Mapping[str, str]) -> str | None:
    """The batch system in whose job this process runs."""
    return next((name for key, name in JOBS.items() if environ.get(key)), None)


@dataclass(frozen=True, slots=True)
class Selection:
    gpus: tuple[Gpu, ...]
    notes: tuple[str, ...] = ()


def select(gpus: Sequence[Gpu], visible: str, environ: Mapping[str, str]) -> Selection:
    """`visible` is the operator's word and wins; then a device variable; then what a batch system gave to our job."""
    if visible.strip() == ALL:
        return Selection(tuple(gpus))
    if visible.strip():
        return _named(gpus, visible)
    variable = VARIABLES[_kind(gpus)]
    job = batch_job(environ)
    if (listed := environ.get(variable)) is not None:
        return Selection(tuple(_listed(gpus, listed, in_job=job is not None)))
    if job is None or not gpus:
        return Selection(tuple(gpus))
    return _of_job(gpus, job, environ)


def _named(gpus: Sequence[Gpu], visible: str) -> Selection:
    chosen: list[Gpu] = []
    notes = []
    for name in _words(visible):
        matches = [gpu for gpu in gpus if gpu.is_called(name)]
        if not matches:
            notes.append(f'visible_gpus: no GPU of this machine is called "{name}"')
        chosen += [gpu for gpu in matches if gpu not in chosen]
    return Selection(tuple(chosen), tuple(notes))


def _listed(gpus: Sequence[Gpu], listed: str, *, in_job: bool) -> Iterator[Gpu]:
    """It ends at the first unknown name, as in CUDA. In a job every name is a GPU, known or not."""
    if listed.strip() in NO_DEVICES:
        return
    seen: set[str] = set()
    slots = {gpu.slot for gpu in gpus}
    for name in _words(listed):
        matches = [gpu for gpu in gpus if gpu.is_called(name)]
        if not matches and not in_job:
            return
        for gpu in matches or [_unknown(name, slots)]:
            if gpu.uuid not in seen:
                seen.add(gpu.uuid)
                slots.add(gpu.slot)
                yield gpu


def _unknown(name: str, taken: Collection[int]) -> Gpu:
    """A GPU of which only the batch system knows: passed on to tasks as it is."""
    index = int(name) if _INDEX.fullmatch(name) else -1
    if index < 0 or index in taken:
        index = next(n for n in count() if n not in taken)
    return Gpu(slot=index, kind=_kind_of_driver(), index=index, uuid=name)


def _of_job(gpus: Sequence[Gpu], job: str, environ: Mapping[str, str]) -> Selection:
    """Without a device variable. Where the site's cgroups hide other GPUs, indices of the machine fit nothing here."""
    given = next((environ[key] for key in GLOBAL_INDICES if environ.get(key)), None)
    if given is None:
        note = (
            f"{job} gave this job no GPUs: if the whole machine is the job's, set visible_gpus: all"
        )
        return Selection((), (note,))
    names = _words(given)
    if len(names) == len({gpu.index for gpu in gpus}):
        return Selection(tuple(gpus))
    return Selection(tuple(gpu for gpu in gpus if any(gpu.is_called(name) for name in names)))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _kind(gpus: Sequence[Gpu]) -> SlotKind:
    return gpus[0].kind if gpus else _kind_of_driver()


def _kind_of_driver() -> SlotKind:
    is_amd = Path("/dev/kfd").exists() and not Path("/dev/nvidiactl").exists()
    return SlotKind.ROCM if is_amd else SlotKind.CUDA
