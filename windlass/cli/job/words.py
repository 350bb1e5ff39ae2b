"""How users write jobs and changes of them on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from windlass.base.errors import InvalidArgument, InvalidState, NotFound
from windlass.cli.find import find
from windlass.cli.output.columns import SHORTEST_ID, WAITING, Column
from windlass.cli.output.text import waiting_text
from windlass.sdk.client import TERMINAL_STATES, Client
from windlass.sdk.generic import GenericTasks
from windlass.sdk.interactive import KINDS
from windlass.sdk.wire import Json

WHOLE_ID = 36
"""Length of a full job id, a UUID."""
MAX_EXPERIMENT = 2**31 - 1
"""A larger number can only be the first characters of an id."""
_SEE_LIST = ": see `det task list -a`"
_ENDED_WORDS = {
    "STATE_COMPLETED": "completed",
    "STATE_CANCELED": "been canceled",
    "STATE_ERROR": "failed",
}
_UUID = re.compile(r"(?:\d+\.)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ALLOCATION_ID = re.compile(rf"{_UUID.pattern}\.\d+")

_OPERATIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "priority": ("priority", int),
    "weight": ("weight", float),
    "resource-pool": ("resourcePool", str),
    "ahead-of": ("aheadOf", str),
    "behind-of": ("behindOf", str),
}


def parse_operation(text: str) -> Json:
    """`JOB.OPERATION=VALUE` as an update of the API. Raises InvalidArgument."""
    job_id, _, operation = text.partition(".")
    name, equals, value = operation.partition("=")
    if not (job_id and name and equals and value):
        raise InvalidArgument(
            f'"{text}": expected JOB.OPERATION=VALUE, for example 3f2a.priority=1'
        )
    found = _OPERATIONS.get(name.replace("_", "-"))
    if found is None:
        known = ", ".join(_OPERATIONS)
        raise InvalidArgument(f'"{text}": unknown operation "{name}"; use one of {known}')
    key, convert = found
    try:
        return {"jobId": job_id, key: convert(value)}
    except ValueError:
        number = "a whole number" if convert is int else "a number"
        raise InvalidArgument(f'"{text}": {name} must be {number}, not "{value}"') from None


def resolve(client: Client, word: str) -> str:
    """The whole id of a job: written as its id, an experiment's number, an interactive task's id, or how an id begins.

    Raises InvalidArgument for an empty word, NotFound, Conflict if it begins several, InvalidState for what is over.
    """
    if not word:
        raise InvalidArgument("Give a job id, its first characters, or an experiment id")
    if word.isascii() and word.isdigit() and len(word) < WHOLE_ID and int(word) <= MAX_EXPERIMENT:
        try:
            return str(live_experiment(client, int(word))["jobId"])
        except NotFound:
            if len(word) < SHORTEST_ID:  # longer ones may be how an id begins
                raise NotFound("job or experiment", word) from None
    try:
        return str(client.job(word)["jobId"])
    except NotFound:
        return _job_of_task(client, word)


def full_task_id(client: Client, word: str) -> str:
    """The whole id of a task of any kind, of which the first characters are enough.

    What is over is found if it is generic or interactive. Raises NotFound, Conflict.
    """
    if is_task_id(word):
        return word
    ids = {str(run["taskId"]) for run in client.live_allocations()}
    ids |= {str(task["taskId"]) for task in GenericTasks(client).listed(ended=True)}
    ids |= {str(task["id"]) for kind in KINDS for task in client.interactive(kind).listed()}
    return find("task", word, ids, hint=_SEE_LIST)


def full_generic_id(client: Client, word: str) -> str:
    """The same of a generic task."""
    if is_task_id(word):
        return word
    ids = [str(task["taskId"]) for task in GenericTasks(client).listed(ended=True)]
    return find("generic task", word, ids, hint=_SEE_LIST)


def waiting_in_names(client: Client, rows: Sequence[Json]) -> Column:
    """What these rows wait for, with names of tasks."""
    texts = [waiting_text(row) for row in rows]
    names = dict(zip(texts, in_names(client, texts), strict=True))
    return replace(WAITING, value=lambda row: names[waiting_text(row)])


def in_names(client: Client, texts: Sequence[str]) -> list[str]:
    """The master's words, with the names of tasks for the ids of runs; one that is over keeps its id."""
    if not any(map(_ALLOCATION_ID.search, texts)):
        return list(texts)
    names = {run.get("allocationId"): run.get("name") for run in client.live_allocations()}
    return [_ALLOCATION_ID.sub(lambda id_: names.get(id_[0]) or id_[0], text) for text in texts]


@contextmanager
def known_pool(client: Client, name: str | None) -> Iterator[None]:
    """Says which pools there are if the master does not find this one."""
    try:
        yield
    except NotFound:
        names = sorted(str(pool["name"]) for pool in client.resource_pools())
        if name is None or name in names:
            raise
        raise InvalidArgument(
            f'Resource pool "{name}" does not exist; use one of {", ".join(names)}'
        ) from None


def live_experiment(client: Client, number: int) -> Json:
    """Raises NotFound, InvalidState if it is over."""
    experiment: Json = client.experiment(number)["experiment"]
    state = str(experiment.get("state"))
    if state in TERMINAL_STATES:
        raise InvalidState(already_ended(number, state))
    return experiment


def already_ended(number: int, state: str) -> str:
    """In the words of the master."""
    return f"Experiment {number} has already {_ENDED_WORDS.get(state, 'ended')}"


def is_task_id(word: str) -> bool:
    """A whole one."""
    return _UUID.fullmatch(word) is not None


def _job_of_task(client: Client, word: str) -> str:
    tasks = {
        str(task["id"]): (kind, task)
        for kind in KINDS
        for task in client.interactive(kind).listed()
    }
    try:
        id_ = find("task", word, tasks)
    except NotFound:
        raise NotFound("job", word) from None
    kind, task = tasks[id_]
    if task.get("state") == "STATE_TERMINATED":
        raise InvalidState(
            f"{kind.one.capitalize()} {id_} has already ended ({task.get('exitStatus')})"
        )
    return str(task["jobId"])
