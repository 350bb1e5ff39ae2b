"""What a master may do with the data folder it was given: go on, make a new cluster, or nothing. Pure.

A new cluster is made where nothing of an old one is. Anything that is half there is refused: beside a secret
or model definitions, an empty database is a lost one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from master.recovery.identity import FILE, FORMAT, FolderState, Identity


class Content(StrEnum):
    """Of a database or of the secret."""

    MISSING = "missing"
    EMPTY = "empty"
    """Of a database: no tables."""
    FOREIGN = "foreign"
    """Not one of a master, or (a secret) of another cluster."""
    DAMAGED = "damaged"
    NEWER = "newer"
    """Of a release after this one."""
    OURS = "ours"


class LosablePart(StrEnum):
    """What a cluster can go on without, if an operator says so."""

    SECRET = "secret"  # noqa: S105  (the name of a file)
    LOGS = "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDatabase:
    where: str
    """For messages."""
    content: Content
    detail: str = ""
    """What was found instead, for people."""
    cluster_id: str | None = None
    secret_mark: str | None = None
    is_older: bool = False
    """Its tables are of a release before this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundData:
    folder: Path
    identity: Identity | None
    """None: a folder of 0.1, or a new one."""
    secret: Content
    has_blobs: bool
    state: FoundDatabase
    logs: FoundDatabase
    way_back: str
    """How to restore the last backup."""


@dataclass(frozen=True, slots=True)
class StartCluster:
    cluster_id: str
    replace: frozenset[LosablePart] = frozenset()


@dataclass(frozen=True, slots=True)
class CreateCluster:
    cluster_id: str | None = None
    """None: make one up. Else a first start that was cut goes on."""


@dataclass(frozen=True, slots=True)
class Refuse:
    text: str


def decide(
    found: FoundData, may_replace: Collection[LosablePart] = ()
) -> StartCluster | CreateCluster | Refuse:
    problem = next(_problems_of_the_state(found), None)
    if problem is not None:
        return Refuse(problem)
    if found.identity is not None and _is_new(found):
        return CreateCluster(found.identity.cluster_id)
    if found.state.content is not Content.OURS or found.state.cluster_id is None:
        return CreateCluster()
    losses = dict(_losses(found))
    for lost, text in losses.items():
        if lost not in may_replace:
            return Refuse(text)
    return StartCluster(found.state.cluster_id, frozenset(losses))


def _problems_of_the_state(found: FoundData) -> Iterator[str]:
    identity, state = found.identity, found.state
    if identity is not None and identity.state is FolderState.RESTORING:
        yield f"a restore into {found.folder} did not come to its end: restore again into the same folder"
    if identity is not None and identity.format > FORMAT:
        yield _newer(str(found.folder), f"format {identity.format} of {FILE}")
    for database in (state, found.logs):
        if database.content is Content.NEWER:
            yield _newer(database.where, database.detail)
    match state.content:
        case Content.DAMAGED:
            yield f"{state.where} is damaged: {state.detail}; {found.way_back}"
        case Content.FOREIGN:
            yield (
                f"{state.where} is not the database of a master: {state.detail}; correct `db` in master.yaml or "
                f"--data-dir, or {found.way_back}"
            )
        case Content.MISSING | Content.EMPTY if remains := _remains(found):
            yield (
                f"{state.where} is {state.content}, but {found.folder} has {remains} of a cluster: its database was "
                f"lost, or `db` in master.yaml names another one. Correct it, or {found.way_back}. "
                "For a new cluster give an empty --data-dir"
            )
        case Content.OURS if state.cluster_id is None and found.identity and not _is_new(found):
            yield f"{state.where} has tables but no cluster in them; {found.way_back}"
    if identity is not None and state.cluster_id not in (None, identity.cluster_id):
        yield (
            f"{found.folder} belongs to cluster {identity.cluster_id}, but {state.where} to cluster "
            f"{state.cluster_id}: correct `db` in master.yaml or --data-dir"
        )


def _is_new(found: FoundData) -> bool:
    """Whether a first start has begun here and did not come to its end."""
    return found.identity is not None and found.identity.state is FolderState.CREATING


def _remains(found: FoundData) -> str:
    """What a folder without a database still has of a cluster; nothing if its first start did not end."""
    if _is_new(found):
        return ""
    parts = (
        (FILE, found.identity is not None),
        ("a secret", found.secret is not Content.MISSING),
        ("model definitions", found.has_blobs),
        (f"logs ({found.logs.where})", found.logs.content not in (Content.MISSING, Content.EMPTY)),
    )
    return ", ".join(name for name, there in parts if there)


def _losses(found: FoundData) -> Iterator[tuple[LosablePart, str]]:
    """Of a cluster whose state is whole."""
    state, logs, where = found.state, found.logs, found.folder
    go_on = "To go on without it, start with --replace-lost {}"
    if found.secret is not Content.OURS:
        what = {
            Content.MISSING: "is missing",
            Content.FOREIGN: f"is not that of cluster {state.cluster_id}",
        }.get(found.secret, "is damaged: it does not hold 32 bytes in hexadecimal")
        yield (
            LosablePart.SECRET,
            f"{where / 'secret'} {what}: {found.way_back}, and take the file from there. "
            f"{go_on.format(LosablePart.SECRET)}: tokens of running tasks and join tokens end then",
        )
    of_another = logs.cluster_id not in (None, state.cluster_id)
    if logs.content is not Content.OURS or of_another:
        what = f"is of cluster {logs.cluster_id}" if of_another else f"is {logs.content}"
        detail = f" ({logs.detail})" if logs.detail else ""
        yield (
            LosablePart.LOGS,
            f"the log database {logs.where} {what}{detail}: {found.way_back}. {go_on.format(LosablePart.LOGS)}: "
            "task logs begin anew",
        )


def _newer(where: str, found: str) -> str:
    return f"{where} was used by a newer Windlass ({found}): start that release again"
