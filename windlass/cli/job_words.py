"""How users write jobs and changes of them on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windlass.base.errors import InvalidArgument
from windlass.sdk.client import Client

SHORTEST = 8
"""Ids are not cut shorter than this for a screen: what is unique today may not be tomorrow."""
WHOLE = 36
"""Length of a whole job id, a UUID: the master need not be asked what it stands for."""
MAX_EXPERIMENT_DIGITS = 10

_OPERATIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "priority": ("priority", int),
    "weight": ("weight", float),
    "resource-pool": ("resourcePool", str),
    "ahead-of": ("aheadOf", str),
    "behind-of": ("behindOf", str),
}


def parse_operation(text: str) -> dict[str, Any]:
    """`JOB.OPERATION=VALUE` as an update of the API. Raises InvalidArgument."""
    job_id, _, operation = text.partition(".")
    name, equals, value = operation.partition("=")
    if not (job_id and name and equals and value):
        raise InvalidArgument(
            f'"{text}" must be written as JOB.OPERATION=VALUE, e.g. 3f2a.priority=1'
        )
    found = _OPERATIONS.get(name.replace("_", "-"))
    if found is None:
        known = ", ".join(_OPERATIONS)
        raise InvalidArgument(f'"{text}": there is no operation "{name}"; use one of {known}')
    key, convert = found
    try:
        return {"jobId": job_id, key: convert(value)}
    except ValueError:
        raise InvalidArgument(f'"{text}": {name} must be a number, but is "{value}"') from None


def resolve(client: Client, word: str) -> str:
    """The whole id of a job that is written as its id, as the beginning of that, or as an experiment id."""
    if word.isascii() and word.isdigit() and len(word) <= MAX_EXPERIMENT_DIGITS:
        return str(client.experiment(int(word))["experiment"]["jobId"])
    if len(word) == WHOLE:
        return word
    return str(client.job(word)["jobId"])


def short_ids(ids: Sequence[str]) -> list[str]:
    """As short as tells them apart."""
    for length in range(SHORTEST, WHOLE):
        short = [id_[:length] for id_ in ids]
        if len(set(short)) == len(set(ids)) and not any(map(str.isdigit, short)):
            return short
    return list(ids)
