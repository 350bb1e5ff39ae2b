"""TensorBoards: which files each shows, how its task sees them, and what it takes over from experiments. Pure.

Each experiment is read from its own checkpoint storage: those of one TensorBoard may lie in different ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict

from master.allocations.mounts import SHARED_FS, host_folder, storage_mount
from master.allocations.task_environment import RUN_DIR, own_mounts
from master.core.expconf import ExperimentConfig
from master.core.expconf.secrets import is_reference, replaced
from master.core.expconf.templates import Template
from rm_backends.base import BindMount, TaskFile
from windlass.base.errors import InvalidArgument, PermissionDenied
from windlass.base.formats.json_types import JsonMapping, JsonObject

MAX_TRIALS = 100
"""Of one TensorBoard: it reads the files of all of them again and again."""
FILE = f"{RUN_DIR}/tensorboard/sources.json"


class Mount(BaseModel):
    model_config = ConfigDict(frozen=True)

    source: str
    target: str


class Source(BaseModel):
    """The files of an experiment, or of a trial."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Its folder in the TensorBoard."""
    folder: str
    """In the storage."""
    storage: JsonObject
    """A complete `checkpoint_storage` section; secrets of the cluster's are references."""
    mount: Mount | None = None
    """What of the node its task has to see."""


class Details(BaseModel):
    """What is kept with a TensorBoard."""

    model_config = ConfigDict(frozen=True)

    experiment_ids: tuple[int, ...] = ()
    """As they were asked for."""
    trial_ids: tuple[int, ...] = ()
    sources: tuple[Source, ...] = ()
    """The newest experiment first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An experiment, and what of it is asked for."""

    id: int
    config: JsonMapping
    owner_id: int | None
    whole: bool
    trials: int
    """How many it has."""
    workspace_id: int = 1
    unmanaged: bool = False
    """Nobody has checked that tasks may mount its storage."""
    trial_ids: Sequence[int] = field(default=())
    """Those that are asked for by themselves."""

    @property
    def shown(self) -> int:
        """Trials; an experiment that has none yet will have some."""
        return max(self.trials, 1) if self.whole else len(self.trial_ids)


def require_few(watched: Iterable[Watched]) -> None:
    """Raises InvalidArgument."""
    number = sum(one.shown for one in watched)
    if number > MAX_TRIALS:
        raise InvalidArgument(
            f"a TensorBoard shows up to {MAX_TRIALS} trials, and these are {number}: "
            "choose the ones to compare by their ids (trialIds, --trial-ids)"
        )


def require_open_storage(
    watched: Iterable[Watched],
    *,
    shows: Mapping[int, bool],
    lent: Mapping[int, Collection[str]],
) -> None:
    """Keys in a configuration are its owner's: no task of somebody else's gets them. Raises PermissionDenied.

    `shows`: by experiment, whether the caller may see the secrets of its configuration. `lent`: by workspace, the keys
    that it gives to experiments which the caller might create there.
    """
    closed = [
        str(one.id)
        for one in watched
        if not shows[one.id]
        and _has_own_keys(one.config["checkpoint_storage"], lent.get(one.workspace_id, ()))
    ]
    if closed:
        raise PermissionDenied(
            f"experiment {', '.join(closed)}: its checkpoint_storage has keys that only its owner and administrators "
            "may use: ask one of them to start the TensorBoard"
        )


def _has_own_keys(storage: JsonMapping, lent: Collection[str]) -> bool:
    found: list[str] = []
    replaced(storage, lambda secret: found.append(str(secret)))
    return any(not is_reference(secret) and secret not in lent for secret in found)


def environment_of(
    config: JsonMapping,
    newest: Watched,
    *,
    own: bool,
    shown: bool,
    template: Template | None = None,
) -> JsonObject:
    """`config` with the image of the newest experiment and its registry's login, unless it or its template names one.

    `own`: the caller's own experiment: the Python of its processes, and what comes before them, are taken over, too.
    `shown`: the caller may see its secrets.
    """
    given: Any = config.get("environment")
    if given is not None and not isinstance(given, Mapping):
        return dict(config)
    given = dict(given or {})
    under: Any = template.config.get("environment") if template is not None else None
    of_template = under if isinstance(under, Mapping) else {}
    named = {**of_template, **{key: value for key, value in given.items() if value is not None}}
    theirs = newest.config.get("environment") or {}
    keys = [*(["python", "prologue"] if own else []), "image"]
    taken = [key for key in keys if named.get(key) is None and theirs.get(key)]
    if shown and "image" in taken and named.get("registry_auth") is None:
        taken.append("registry_auth")
    found = {key: theirs[key] for key in taken if theirs.get(key)}
    return {
        **config,
        "environment": {**found, **{k: v for k, v in given.items() if k not in found}},
    }


def details_of(watched: Sequence[Watched], cluster_id: str) -> Details:
    """Raises InvalidArgument for storages that one task cannot see together."""
    newest_first = sorted(watched, key=lambda one: -one.id)
    mounts = _Mounts()
    return Details(
        experiment_ids=tuple(sorted(one.id for one in watched if one.whole)),
        trial_ids=tuple(sorted(id_ for one in watched for id_ in one.trial_ids)),
        sources=tuple(
            source for one in newest_first for source in _sources(one, cluster_id, mounts.add(one))
        ),
    )


def _sources(one: Watched, cluster_id: str, mount: Mount | None) -> Iterator[Source]:
    name = f"experiment/{one.id}"
    names = [name] if one.whole else [f"{name}/trial/{trial}" for trial in one.trial_ids]
    for part in names:
        yield Source(
            name=part,
            folder=f"{cluster_id}/tensorboard/{part}",
            storage=dict(one.config["checkpoint_storage"]),
            mount=mount,
        )


class _Mounts:
    """What the storages need, each at a place of its own."""

    def __init__(self) -> None:
        self._shared: dict[str, str] = {}
        self._others: dict[str, tuple[str, int]] = {}

    def add(self, one: Watched) -> Mount | None:
        config = ExperimentConfig.from_json(one.config)
        bind = storage_mount(config) or _own_mount(config)
        if bind is None:
            return None
        if one.unmanaged:
            raise InvalidArgument(
                f"experiment {one.id} is unmanaged and stores in {bind.source} where its processes run: no task here "
                "can read that; give it a bucket, or run tensorboard there"
            )
        if bind.target == SHARED_FS:
            suffix = f".{len(self._shared) + 1}" if self._shared else ""
            target = self._shared.setdefault(bind.source, SHARED_FS + suffix)
            return Mount(source=bind.source, target=target)
        source, first = self._others.setdefault(bind.target, (bind.source, one.id))
        if source != bind.source:
            raise InvalidArgument(
                f"experiments {first} and {one.id} have different folders of their nodes at {bind.target} "
                f"({source} and {bind.source}): start a TensorBoard for each"
            )
        return Mount(source=bind.source, target=bind.target)


def _own_mount(config: ExperimentConfig) -> BindMount | None:
    """The bind mount of the experiment's own in which its storage lies."""
    folder = host_folder(config.checkpoint_storage)
    if folder is None:
        return None
    mounts = (m for m in own_mounts(config) if PurePosixPath(folder).is_relative_to(m.target))
    return next(mounts, None)


def mounts_of(details: JsonMapping) -> tuple[BindMount, ...]:
    """Nothing is written there."""
    found = dict.fromkeys(source.mount for source in _read(details).sources)
    return tuple(
        BindMount(source=mount.source, target=mount.target, read_only=True)
        for mount in found
        if mount is not None
    )


def experiments_of(details: JsonMapping) -> tuple[int, ...]:
    """Whole, or some of their runs."""
    parts = (source.name.split("/") for source in _read(details).sources)
    return tuple(sorted({int(part[1]) for part in parts}))


def task_file(details: JsonMapping) -> TaskFile:
    """What the task is told: where the files are. `details` with the secrets of now."""
    content = _read(details).model_dump_json(include={"sources"})
    return TaskFile(path=FILE, content=content.encode(), mode=0o600)


def s3_variables(details: JsonMapping) -> dict[str, str]:
    """Of the newest experiment's bucket, for programs that look for it in the environment."""
    first = next(iter(_read(details).sources), None)
    if first is None or first.storage.get("type") != "s3":
        return {}
    storage = first.storage
    endpoint = str(storage.get("endpoint_url") or "")
    scheme, _, host = endpoint.partition("://")
    found = {
        "AWS_ACCESS_KEY_ID": storage.get("access_key"),
        "AWS_SECRET_ACCESS_KEY": storage.get("secret_key"),
        "AWS_BUCKET": storage.get("bucket"),
        "DET_S3_ENDPOINT_URL": endpoint,
        "S3_ENDPOINT": host,
        "S3_USE_HTTPS": {"https": "1", "http": "0"}.get(scheme) if host else None,
    }
    return {name: str(value) for name, value in found.items() if value}


def _read(details: JsonMapping) -> Details:
    return Details.model_validate(dict(details))
