"""sbatch's command line: what we set, and what operators and users may add. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from provisioner.batch.base import JobSpec
from provisioner.batch.slurm.text import limit_s, walltime

_OURS = {
    "ntasks": "n",
    "ntasks-per-node": "",
    "nodes": "N",
    "gpus": "G",
    "gpus-per-node": "",
    "gpus-per-task": "",
    "gpus-per-socket": "",
    "chdir": "D",
    "error": "e",
    "output": "o",
    "input": "i",
    "open-mode": "",
    "partition": "p",
    "requeue": "",
    "no-requeue": "",
    "array": "a",
    "job-name": "J",
    "clusters": "M",
    "signal": "",
    "parsable": "",
    "test-only": "",
    "wait": "W",
    "wrap": "",
    "export-file": "",
    "bbf": "",
    "uid": "",
    "gid": "",
    "version": "V",
    "help": "h",
    "usage": "",
}
"""Long option -> its letter: those that would contradict what we set, keep sbatch from submitting, or let it read
files where the master is, as the master's user."""
_WHOLE = frozenset({"export", "bb"})
"""Options of sbatch themselves, not beginnings of ours."""
_INSTEAD = {
    "partition": "name the resource pool of that partition in resources.resource_pool",
    "nodes": "set resources.slots_per_trial and slurm.slots_per_node",
    "ntasks": "set resources.slots_per_trial and slurm.slots_per_node",
    "gpus": "set resources.slots_per_trial and slurm.slots_per_node",
    "gres=gpu": "set resources.slots_per_trial, slurm.slots_per_node and slurm.gpu_type",
}
_TIMES = frozenset({"time", "t", "time-min"})
_TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|unlimited|infinite|-1", re.IGNORECASE)
_FLAGS = frozenset("hHIkOQsvVW")
"""Letters without a value."""


@dataclass(frozen=True, slots=True)
class Option:
    """One argument, as sbatch would read it."""

    name: str
    """Without dashes; of one letter: the short form."""
    value: str
    word: str
    """One word for the command line that can be read in no other way."""


def problems(arguments: Sequence[str]) -> list[str]:
    """Why these are not given to sbatch, one line each; empty if they are."""
    found = []
    for argument in arguments:
        if not argument.startswith("-") or argument.strip("-") == "" or "\0" in argument:
            found.append(
                f'"{argument}" is no option of sbatch: write one option per item, such as --time=60'
            )
            continue
        for name in _contradicted(argument):
            instead = _INSTEAD.get(name) or "remove it"
            found.append(
                f'"{argument}": slurm option {"-" if len(name) == 1 else "--"}{name} '
                f"is not configurable: {instead}"
            )
        option = parse(argument)
        if option.name in _TIMES and not _TIME.fullmatch(option.value):
            found.append(
                f'"{argument}" is no time limit of Slurm: write minutes, as --{_long(option.name)}=90, or '
                f"--{_long(option.name)}=24:00:00, or with days 2-00:00:00"
            )
    return found


def _long(name: str) -> str:
    return "time" if name == "t" else name


def wanted_walltime_s(arguments: Sequence[str]) -> float | None:
    """What `--time` or `-t` asks for; the last one counts. None: none of them does."""
    wanted = None
    for option in map(parse, arguments):
        if option.name in ("time", "t"):
            wanted = limit_s(option.value)
    return wanted


def wanted(arguments: Sequence[str], name: str, letter: str) -> str:
    """What an option asks for, by its name or letter; the last one counts. Empty: none of them does."""
    found = (option.value for option in map(parse, arguments) if option.name in (name, letter))
    return next(iter(reversed(list(found))), "")


def sbatch_line(job: JobSpec) -> list[str]:
    """Without the script, which goes to its standard input."""
    options = [parse(argument) for argument in job.arguments]
    gres = [
        f"gpu:{job.gpu_type}:{job.gpus_per_node}" if job.gpu_type else f"gpu:{job.gpus_per_node}"
    ]
    gres = gres if job.gpus_per_node else []
    gres += [option.value for option in options if option.name == "gres"]
    avoid = [*job.avoid, *(o.value for o in options if o.name in ("exclude", "x"))]
    merged = ("gres", "exclude", "x")
    line = [
        "sbatch",
        "--parsable",
        "--no-requeue",
        "--open-mode=append",
        f"--job-name={job.name}",
        # An array has no directory of its own: the script of each of its jobs goes to its own.
        f"--chdir={job.directory.parent if job.tasks else job.directory}",
        f"--output={job.directory}{'.%a' if job.tasks else ''}/batch.log",
        f"--nodes={job.nodes}",
        f"--ntasks={job.nodes}",
        "--ntasks-per-node=1",
    ]
    if job.tasks:
        line.append(f"--array=0-{job.tasks - 1}")
    if job.queue:
        line.append(f"--partition={job.queue}")
    if gres:
        line.append(f"--gres={','.join(gres)}")
    if job.cpus_per_node is not None:
        line.append(f"--cpus-per-task={job.cpus_per_node}")
    if job.memory_mib_per_node is not None:
        line.append(f"--mem={job.memory_mib_per_node}M")
    if job.walltime_s is not None:
        line.append(f"--time={walltime(job.walltime_s)}")
    if avoid:
        line.append(f"--exclude={','.join(avoid)}")
    if job.project:
        line.append(f"--wckey={job.project}")
    if job.nice:
        line.append(f"--nice={job.nice}")
    return line + [option.word for option in options if option.name not in merged]


def parse(argument: str) -> Option:
    """`--time=60`, `--time 60`, `-t60`, `-t 60`."""
    text = argument.strip()
    if text.startswith("--"):
        head, _, rest = text.partition(" ")
        name, is_one, value = head[2:].partition("=")
        value = f"{value} {rest}".strip() if is_one else rest.strip()
        has_value = bool(is_one or rest.strip())
        return Option(name, value, f"--{name}={value}" if has_value else f"--{name}")
    value = text[2:].strip().removeprefix("=")
    return Option(text[1:2], value, f"-{text[1:2]}{value}")


def _contradicted(argument: str) -> Iterator[str]:
    option = parse(argument)
    if not argument.strip().startswith("--"):
        letters = {letter: name for name, letter in _OURS.items() if letter}
        for letter in argument.strip()[1:]:
            if letter in letters:
                yield letters[letter]
                return
            if letter not in _FLAGS:
                return
        return
    # getopt takes any beginning of a name that is long enough.
    begins = option.name not in _WHOLE
    ours = [name for name in _OURS if begins and name.startswith(option.name)]
    if option.name in _OURS or ours:
        yield option.name if option.name in _OURS else ours[0]
    elif "gres".startswith(option.name) and len(option.name) > 1 and _asks_for_gpus(option.value):
        yield "gres=gpu"


def _asks_for_gpus(gres: str) -> bool:
    return any(one.strip().removeprefix("gres/").split(":")[0] == "gpu" for one in gres.split(","))
