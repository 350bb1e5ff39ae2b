"""A job as slurmrestd takes it, with the arguments of sbatch that have a field there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from provisioner.batch.base import JobSpec
from provisioner.batch.commands import PLACES
from provisioner.batch.slurm.arguments import Option, parse
from provisioner.batch.slurm.text import limit_s
from windlass.base.errors import InvalidArgument

LAST_OF_OPTIONS = 38
"""Up to v0.0.38 a job is written as sbatch's options are; since then as Slurm's own record of a job."""
SCRIPT_INSIDE = 41
"""Since then the script is a field of the job."""
ENVIRONMENT = {"PATH": PLACES, "LC_ALL": "C.UTF-8"}
"""What jobs begin with: one must be given."""
_WHO = """export USER="$SLURM_JOB_USER" LOGNAME="$SLURM_JOB_USER"
export HOME="$(getent passwd "$SLURM_JOB_UID" | cut -d: -f6)"
"""
"""What sbatch would have passed on: only the node knows."""
_SIZES = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


def _text(value: str) -> str:
    return value


def _listed(value: str) -> list[str]:
    return [word for word in value.split(",") if word]


def _whole(value: str) -> int:
    if not value.removeprefix("-").isdigit():
        raise ValueError("a whole number is needed")
    return int(value)


def _mib(value: str) -> int:
    """`16G`; without a letter MiB."""
    digits = value.upper().removesuffix("B").rstrip("KMGT")
    unit = value.upper().removesuffix("B").removeprefix(digits)
    if not digits.isdigit() or unit not in _SIZES:
        raise ValueError("a size such as 16G is needed")
    return max(1, int(int(digits) * _SIZES[unit])) if int(digits) else 0


def _minutes(value: str) -> int:
    seconds = limit_s(value)
    if seconds is None:
        raise ValueError("a time such as 2:00:00 is needed")
    return in_minutes(seconds)


def _is_whole_nodes(value: str) -> str:
    if value:
        raise ValueError("only --exclusive without a value has a field")
    return "exclusive"


@dataclass(frozen=True, slots=True)
class _Field:
    """Of both forms of a job. Empty: that one has none."""

    letter: str
    old: str
    new: str
    read: Callable[[str], object] = _text
    is_set: bool = False
    """In the new form it is a number that says whether it is set."""


_FIELDS: Mapping[str, _Field] = {
    "account": _Field("A", "account", "account"),
    "comment": _Field("", "comment", "comment"),
    "constraint": _Field("C", "constraints", "constraints"),
    "cpus-per-task": _Field("c", "cpus_per_task", "cpus_per_task", _whole),
    "dependency": _Field("d", "dependency", "dependency"),
    "exclude": _Field("x", "exclude_nodes", "excluded_nodes"),
    "exclusive": _Field("", "exclusive", "", _is_whole_nodes),
    "gres": _Field("", "gres", "tres_per_node"),
    "licenses": _Field("L", "licenses", "licenses"),
    "mem": _Field("", "memory_per_node", "memory_per_node", _mib, is_set=True),
    "mem-per-cpu": _Field("", "memory_per_cpu", "memory_per_cpu", _mib, is_set=True),
    "nice": _Field("", "nice", "nice", _whole),
    "nodelist": _Field("w", "nodelist", "required_nodes"),
    "prefer": _Field("", "prefer", "prefer"),
    "qos": _Field("q", "qos", "qos"),
    "reservation": _Field("", "reservation", "reservation"),
    "threads-per-core": _Field("", "threads_per_core", "threads_per_core", _whole),
    "time": _Field("t", "time_limit", "time_limit", _minutes, is_set=True),
    "time-min": _Field("", "time_minimum", "time_minimum", _minutes, is_set=True),
    "wckey": _Field("", "wckey", "wckey"),
}
"""By the long option of sbatch: those that were tried, or recorded, with slurmrestd."""
_LETTERS = {field.letter: name for name, field in _FIELDS.items() if field.letter}
_LISTS = {"exclude", "nodelist"}
"""Words with commas in the old form, lists in the new."""
WAY_OUT = "remove it, or let the master use the commands of Slurm (no api)"


def problems(arguments: Sequence[str]) -> list[str]:
    """Why these cannot be given to slurmrestd, one line each; empty if they can. They are arguments of sbatch."""
    return [text for one in map(parse, arguments) if (text := _problem(one))]


def body(job: JobSpec, version: int) -> dict[str, object]:
    """Of POST .../job/submit. Raises InvalidArgument where that version has no field for an argument."""
    is_old = version <= LAST_OF_OPTIONS
    fields = _ours(job, version) | _theirs(job, is_old=is_old)
    first, _, rest = job.script.partition("\n")
    script = f"{first}\n{_WHO}{rest}"
    if is_old:
        return {"script": script, "job": fields}
    fields["environment"] = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
    if version < SCRIPT_INSIDE:
        return {"script": script, "job": fields}
    return {"job": {**fields, "script": script}}


def in_minutes(seconds: float) -> int:
    """Of a time limit: rounded up."""
    return max(1, int(-(-seconds // 60)))


def _ours(job: JobSpec, version: int) -> dict[str, object]:
    """What the master sets."""
    is_old = version <= LAST_OF_OPTIONS
    output = "standard_out" if version <= 36 else "standard_output"
    fields: dict[str, object] = {
        "name": job.name,
        "current_working_directory": str(job.directory.parent if job.tasks else job.directory),
        output: f"{job.directory}{'.%a' if job.tasks else ''}/batch.log",
        "tasks": job.nodes,
        "tasks_per_node": 1,
    }
    if is_old:
        # `requeue: false` counts for nothing there.
        fields |= {"no_requeue": True, "nodes": [job.nodes, job.nodes], "environment": ENVIRONMENT}
    else:
        fields |= {
            "requeue": False,
            "nodes": str(job.nodes) if version == 39 else f"{job.nodes}-{job.nodes}",
            "minimum_nodes": job.nodes,
            "maximum_nodes": job.nodes,
        }
    if job.tasks:
        fields["array"] = f"0-{job.tasks - 1}"
    if job.queue:
        fields["partition"] = job.queue
    if job.cpus_per_node is not None:
        fields["cpus_per_task"] = job.cpus_per_node
    if job.memory_mib_per_node is not None:
        fields["memory_per_node"] = _set(job.memory_mib_per_node, is_old=is_old)
    if job.walltime_s is not None:
        fields["time_limit"] = _set(in_minutes(job.walltime_s), is_old=is_old)
    if job.project:
        fields["wckey"] = job.project
    if job.nice:
        fields["nice"] = job.nice
    return fields


def _theirs(job: JobSpec, *, is_old: bool) -> dict[str, object]:
    """What operators and users add; lists of GPUs and of nodes to avoid go together with ours."""
    gpu = ":".join(filter(None, ("gpu", job.gpu_type, str(job.gpus_per_node))))
    gathered: dict[str, list[str]] = {
        "gres": [gpu] if job.gpus_per_node else [],
        "exclude": list(job.avoid),
        "nodelist": [],
    }
    fields: dict[str, object] = {}
    for option in map(parse, job.arguments):
        name = _LETTERS.get(option.name, option.name)
        if problem := _problem(option):
            raise InvalidArgument(problem)
        field = _FIELDS[name]
        if name in gathered:
            gathered[name] += _listed(option.value)
        elif not (key := field.old if is_old else field.new):
            raise InvalidArgument(_no_field(option))
        else:
            value = field.read(option.value)
            fields[key] = _set(value, is_old=is_old) if field.is_set else value
    for name, values in gathered.items():
        if values:
            key = _FIELDS[name].old if is_old else _FIELDS[name].new
            fields[key] = values if name in _LISTS and not is_old else _joined(name, values, is_old)
    return fields


def _joined(name: str, values: Sequence[str], is_old: bool) -> str:
    if name == "gres" and not is_old:
        return ",".join(f"gres/{value.removeprefix('gres/')}" for value in values)
    return ",".join(values)


def _problem(option: Option) -> str:
    field = _FIELDS.get(_LETTERS.get(option.name, option.name))
    if field is None:
        return _no_field(option)
    try:
        field.read(option.value)
    except ValueError as error:
        return f'"{option.word}": {error}'
    return ""


def _no_field(option: Option) -> str:
    return f'"{option.word}": slurmrestd has no field for it that the master knows: {WAY_OUT}'


def _set(value: object, *, is_old: bool) -> object:
    return value if is_old else {"set": True, "infinite": False, "number": value}
