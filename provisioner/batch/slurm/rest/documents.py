"""What slurmrestd answers, as the same records that its commands print. Pure; what cannot be read is left out.

Releases write the same things differently: a number as itself, as null or as {set, infinite, number}; a state as a word
or as a list of a word and its flags; an exit code as the status of wait(2), or in its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeGuard

from provisioner.batch.base import ForeignJob, task_id
from provisioner.batch.slurm.partitions import SlurmNode, SlurmPartition, is_idle
from provisioner.batch.slurm.text import (
    NOT_SET,
    JobLine,
    gpus,
    hosts,
    named,
    task_numbers,
)

Json: TypeAlias = object
"""Of a document: anything."""
_LEAST_NOT_SET = 0xFFFFFFF0
"""Where Slurm keeps "not set" and "infinite" in numbers of 32 bits."""
UNKNOWN_JOB, OVER = 2017, 2021
_NOT_THERE = ("Invalid JobID", "Unable to find JobId")


def number(value: Json) -> int | None:
    """Of `3`, `{set, infinite, number}` or null. None: not set, or without a limit."""
    if is_object(value):
        value = value.get("number") if value.get("set", True) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value >= _LEAST_NOT_SET or value < 0 else int(value)


def words(value: Json) -> tuple[str, ...]:
    """Of `"RUNNING"`, `"IDLE+DRAIN"` or `["RUNNING", "COMPLETING"]`, upper case."""
    listed = value if isinstance(value, list) else [value]
    text = "+".join(one for one in listed if isinstance(one, str))
    return tuple(word.strip().upper() for word in text.split("+") if word.strip())


def jobs(document: Json) -> Iterator[JobLine]:
    """Of `/slurm/.../jobs` and `/slurm/.../job/ID`."""
    for record in _records(document, "jobs"):
        if not (state := job_state(record.get("job_state"))):
            continue
        for id_ in _ids(record):
            yield JobLine(
                job_id=id_,
                name=named(id_, _text(record, "name")),
                state=state,
                reason=_reason(record.get("state_reason")),
                start=_time(record.get("start_time")),
                end=_time(record.get("end_time")),
                nodes=hosts(_text(record, "nodes")),
                account=_text(record, "account"),
                exit_code=exit_code(record.get("exit_code")),
            )


def lists_jobs(document: Json) -> bool:
    """Also where there are none."""
    return is_object(document) and isinstance(document.get("jobs"), list)


def remembered(document: Json) -> Iterator[JobLine]:
    """Of `/slurmdb/.../job/ID`: of a job that ran several times, all runs."""
    for record in _records(document, "jobs"):
        at, state = record.get("time"), record.get("state")
        current = job_state(state.get("current") if is_object(state) else None)
        if (id_ := _id_in_accounting(record)) and current and is_object(at):
            yield JobLine(
                job_id=id_,
                name=named(id_, _text(record, "name")),
                state=current,
                start=_time(at.get("start")),
                end=_time(at.get("end")),
                nodes=hosts(_text(record, "nodes")),
                account=_text(record, "account"),
                exit_code=_of_accounting(current, exit_code(record.get("exit_code"))),
            )


def owned(record: Mapping[str, Json], user: str) -> Mapping[str, Json] | None:
    """What `jobs` reads of one of `/slurm/.../jobs`, if it is of that user: a record has a hundred keys."""
    return _only(record, _OWN) if _text(record, "user_name") == user else None


def listed(record: Mapping[str, Json]) -> Mapping[str, Json]:
    """What `foreign_jobs` reads of one of `/slurm/.../jobs`."""
    return _only(record, _FOREIGN)


def foreign_jobs(document: Json, queue: str) -> Iterator[ForeignJob]:
    """Jobs there that are not over, or that hold nodes still. `queue` empty: everywhere."""
    for record in _records(document, "jobs"):
        state = job_state(record.get("job_state"))
        if state not in _LISTED or (queue and queue not in _text(record, "partition").split(",")):
            continue
        id_ = number(record.get("job_id"))
        tasks = _text(record, "array_task_string")
        of_array = number(record.get("array_job_id"))
        task = number(record.get("array_task_id"))
        name = str(id_) if not of_array else f"{of_array}_{f'[{tasks}]' if tasks else task}"
        yield ForeignJob(
            system="slurm",
            job_id=name,
            name=_text(record, "name"),
            user=_text(record, "user_name"),
            waits=state == "PENDING",
            nodes=number(record.get("node_count")) or 0,
            submitted=_time(record.get("submit_time")),
        )


def nodes(document: Json) -> list[SlurmNode]:
    """Of `/slurm/.../nodes`."""
    return [
        SlurmNode(
            name=name,
            partitions=tuple(p for p in _list(record.get("partitions")) if isinstance(p, str)),
            gpus=gpus(_text(record, "gres")),
            cpus=number(record.get("cpus")) or 1,
            memory_mib=number(record.get("real_memory")) or 0,
            is_idle=is_idle({*words(record.get("state")), *words(record.get("state_flags"))}),
        )
        for record in _records(document, "nodes")
        if (name := _text(record, "name"))
    ]


def partitions(document: Json) -> list[SlurmPartition]:
    """Of `/slurm/.../partitions`. Which one is the default is told to v0.0.38; only one: that."""
    found = [_partition(record) for record in _records(document, "partitions")]
    named = [one for one in found if one.name]
    if len(named) == 1:
        return [replace(named[0], is_default=True)]
    return named


def errors(document: Json) -> list[str]:
    """What went wrong, in the words of Slurm; also of single jobs of a request that was taken."""
    return [_words_of(record) for record in _failures(document)]


def is_unknown_job(document: Json) -> bool:
    """Whether the only error is that there is no such job."""
    failures = list(_failures(document))
    return bool(failures) and all(map(_is_unknown, failures))


def is_over(document: Json) -> bool:
    """Whether all that went wrong is that jobs are unknown, or over."""
    return all(_is_unknown(one) or _error_number(one) == OVER for one in _failures(document))


def release(document: Json) -> str:
    """Of Slurm: `23.11.11`."""
    meta = document.get("meta") if is_object(document) else None
    slurm = (meta.get("slurm") or meta.get("Slurm")) if is_object(meta) else None
    return _text(slurm, "release") if is_object(slurm) else ""


def submitted(document: Json) -> str:
    """The id of a job that was taken; empty: it was not. The status of HTTP does not tell."""
    if not is_object(document):
        return ""
    result = document.get("result")
    nested = result.get("job_id") if is_object(result) else None
    found = number(document.get("job_id")) or number(nested)
    return str(found) if found else ""


def job_state(value: Json) -> str:
    """As squeue would print it: what a job is doing before what it was. Empty: none."""
    found = words(value)
    return next((word for word in ("COMPLETING", "CONFIGURING") if word in found), (*found, "")[0])


def exit_code(value: Json) -> tuple[int, int] | None:
    """Code and signal, as Slurm prints them."""
    if not is_object(value) or "number" in value:
        status = number(value)
        if status is None:
            return None
        return (0, status & 0x7F) if status & 0x7F else (status >> 8, 0)
    signal = value.get("signal")
    id_ = (signal.get("id") or signal.get("signal_id")) if is_object(signal) else None
    return number(value.get("return_code")) or 0, number(id_) or 0


def _of_accounting(state: str, code: tuple[int, int] | None) -> tuple[int, int] | None:
    """22.05 tells a good exit of everything that no signal ended."""
    return None if state == "FAILED" and code == (0, 0) else code


def is_object(value: Json) -> TypeGuard[Mapping[str, Json]]:
    return isinstance(value, dict)


_OWN = (
    *("job_id", "name", "job_state", "state_reason", "start_time", "end_time", "nodes"),
    *("account", "exit_code", "array_job_id", "array_task_id", "array_task_string"),
)
_FOREIGN = (
    *("job_id", "job_state", "name", "user_name", "partition", "node_count", "submit_time"),
    *("array_job_id", "array_task_id", "array_task_string"),
)
_LISTED = frozenset(
    {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "SIGNALING"}
    | {"RESIZING", "STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
)


def _ids(record: Mapping[str, Json]) -> Iterator[str]:
    """Those jobs of an array that wait are one record."""
    array, task = (number(record.get(key)) for key in ("array_job_id", "array_task_id"))
    if array and task is not None:
        yield task_id(array, task)
    elif array and (waiting := _text(record, "array_task_string")):
        yield from (task_id(array, one) for one in task_numbers(waiting))
    elif id_ := number(record.get("job_id")):
        yield str(id_)


def _id_in_accounting(record: Mapping[str, Json]) -> str:
    array = _object(record, "array")
    of, task = number(array.get("job_id")), number(array.get("task_id"))
    if of and task is not None:
        return task_id(of, task)
    return str(number(record.get("job_id")) or "")


def _partition(record: Mapping[str, Json]) -> SlurmPartition:
    """Flat up to v0.0.38, nested since; without a state in v0.0.39."""
    largest, usual, held = (_object(record, key) for key in ("maximums", "defaults", "nodes"))
    if not largest:
        return SlurmPartition(
            name=_text(record, "name"),
            is_default="DEFAULT" in words(record.get("flags")),
            is_open="UP" in words(record.get("state", "UP")),
            nodes=number(record.get("total_nodes")),
            max_nodes=number(record.get("maximum_nodes_per_job")),
            max_walltime_s=_minutes(record.get("max_time_limit")),
            default_walltime_s=_minutes(record.get("default_time_limit")),
        )
    return SlurmPartition(
        name=_text(record, "name"),
        is_default="DEFAULT" in words(record.get("flags")),
        is_open="UP" in words(_object(record, "partition").get("state", "UP")),
        nodes=number(held.get("total")),
        max_nodes=number(largest.get("nodes")),
        max_walltime_s=_minutes(largest.get("time")),
        default_walltime_s=_minutes(usual.get("time")),
    )


def _failures(document: Json) -> Iterator[Mapping[str, Json]]:
    yield from _records(document, "errors")
    for status in _records(document, "status"):
        if (error := _object(status, "error")) and _error_number(error):
            yield error


def _is_unknown(error: Mapping[str, Json]) -> bool:
    described = _text(error, "description")
    return _error_number(error) == UNKNOWN_JOB or described.startswith(_NOT_THERE)


def _error_number(error: Mapping[str, Json]) -> int:
    found = (number(error.get(key)) for key in ("error_number", "error_code", "errno", "code"))
    return next((one for one in found if one), 0)


def _words_of(error: Mapping[str, Json]) -> str:
    """The description says what was done, the error what became of it."""
    said = _text(error, "error") or _text(error, "message") or _text(error, "string")
    described = _text(error, "description")
    return (
        f"{said} ({described})" if said and described and described != said else said or described
    )


def _records(document: Json, key: str) -> Iterator[Mapping[str, Json]]:
    found = document.get(key) if is_object(document) else None
    yield from filter(is_object, _list(found))


def _only(record: Mapping[str, Json], keys: Iterable[str]) -> Mapping[str, Json]:
    return {key: record[key] for key in keys if key in record}


def _object(record: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    value = record.get(key)
    return value if is_object(value) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _text(record: Mapping[str, Json], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) and value not in NOT_SET else ""


def _reason(value: Json) -> str:
    """`None` while it runs; `launch_failed_requeued_held` where its words are joined."""
    if not isinstance(value, str):
        return ""
    return "" if value in NOT_SET - {"None"} else value.replace("_", " ")


def _time(value: Json) -> float | None:
    found = number(value)
    return float(found) if found else None


def _minutes(value: Json) -> float | None:
    """Of a time limit; 0: none is set."""
    found = number(value)
    return found * 60.0 if found else None
