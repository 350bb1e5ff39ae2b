"""Reading master.yaml: all problems at once, or one complete configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from master.config.legacy import OldForm, modernise
from master.config.model import DEFAULT_POOL, MasterConfig
from master.core.expconf.container_defaults import TaskContainerDefaults
from master.core.expconf.images import image_problems
from master.core.expconf.models.environment import CONTAINERS
from master.core.expconf.parsing.errors import explain, json_kind
from master.core.expconf.parsing.errors import path as locate
from master.core.expconf.parsing.normalise import normalise_container_defaults
from master.core.expconf.storage_names import name_problems
from master.core.scheduler.end_times import LEAST_WALLTIME_S
from provisioner.providers.pilots.times import LEAST_PILOT_S
from provisioner.sections.batch import BatchKeys, SiteKeys
from provisioner.sections.cloud import CloudSection
from provisioner.sections.pools import pilot_side
from windlass.base.errors import InvalidConfig
from windlass.base.formats.documents import MalformedDocument, read_document
from windlass.base.formats.durations import format_duration
from windlass.base.formats.image_reference import DEFAULT_REGISTRY
from windlass.base.no_effect import keys_without_effect


def short_walltimes(config: MasterConfig) -> Iterator[str]:
    """One line for each that is too short."""
    if isinstance(config.resource_manager, SiteKeys):
        yield from _short("resource_manager", config.resource_manager)
    for index, pool in enumerate(config.resource_pools):
        for section in pool.all_providers:
            if isinstance(section, SiteKeys):
                yield from _short(f"resource_pools[{index}].provider", section)


def _short(where: str, section: SiteKeys) -> Iterator[str]:
    least, pilot = timedelta(seconds=LEAST_WALLTIME_S), timedelta(seconds=LEAST_PILOT_S)
    if section.walltime is not None and section.walltime < least:
        yield (
            f"{where}.walltime: {format_duration(section.walltime)} is too short for work to start, save a checkpoint "
            f"and leave: give at least {format_duration(least)}, unless all work ends within that time"
        )
    for given in section.walltimes if isinstance(section, BatchKeys) else ():
        if given < pilot:
            yield (
                f"{where}.walltimes: no work of unknown length starts on a pilot of {format_duration(given)}: "
                f"give at least {format_duration(pilot)}"
            )


ROOT = "<master.yaml>"
WHAT = "master configuration"
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Far above any real file: naming a data file by mistake should not fill memory."""


def load(path: Path | None, *, overrides: Mapping[str, Any] | None = None) -> MasterConfig:
    """The configuration of a file (None: all defaults), with `overrides` laid over it.

    Keys of `overrides` are dotted paths, as flags and variables are named ("db.host", "log.level"); a value of None
    is "not given". Raises `InvalidConfig` with every problem.
    """
    document = {} if path is None else _read(path)
    try:
        document, warnings = modernise(_overridden(document, overrides or {}))
    except OldForm as error:
        raise InvalidConfig([f"{locate(ROOT, error.at)}: {error}"], what=WHAT) from None
    warnings = [*warnings, *_logins_of_no_registry(document)]
    document = _normalised(document)
    problems = {*_container_default_problems(document), *_pool_problems(document)}
    config = None
    try:
        config = MasterConfig.model_validate(document)
    except ValidationError as error:
        problems |= {problem.line for problem in explain(error, MasterConfig, root=ROOT)}
    if config is not None and config.checkpoint_storage is not None:
        problems.update(name_problems(config.checkpoint_storage, f"{ROOT}.checkpoint_storage"))
    if problems or config is None:
        raise InvalidConfig(sorted(problems), what=WHAT)
    return config.with_warnings(
        [
            *warnings,
            *_replaced_schedulers(document),
            *_without_effect(config, document),
            *_published_agents(config),
            *short_walltimes(config),
        ]
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise MalformedDocument(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        document = read_document(content.decode())
    except OSError as error:
        problem = f"{ROOT}: cannot read {path}: {error.strerror}"
        raise InvalidConfig([problem], what=WHAT) from None
    except UnicodeDecodeError:
        raise InvalidConfig([f"{ROOT}: {path} is not UTF-8 text"], what=WHAT) from None
    except MalformedDocument as error:
        raise InvalidConfig([f"{ROOT}: {error}"], what=WHAT) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        problem = f"{ROOT}: expected object, but got {json_kind(document)}"
        raise InvalidConfig([problem], what=WHAT)
    return document


def _overridden(document: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(document)
    for dotted, value in overrides.items():
        if value is None:
            continue
        *parents, last = dotted.split(".")
        place = result
        for key in parents:
            inner = place.get(key)
            place[key] = dict(inner) if isinstance(inner, Mapping) else {}
            place = place[key]
        place[last] = value
    return result


def _normalised(document: Mapping[str, Any]) -> dict[str, Any]:
    """The short forms inside `task_container_defaults` to the long ones."""
    result = dict(document)
    pools = result.get("resource_pools")
    if isinstance(pools, list):
        result["resource_pools"] = [_with_normal_defaults(pool) for pool in pools]
        if not pools:
            del result["resource_pools"]
    return dict(_with_normal_defaults(result))


def _with_normal_defaults(section: Any) -> Any:
    if not isinstance(section, Mapping):
        return section
    defaults = section.get("task_container_defaults")
    if not isinstance(defaults, Mapping):
        return section
    return {**section, "task_container_defaults": normalise_container_defaults(defaults)}


def _container_default_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """These sections stay raw in the model, so they are checked beside it."""
    yield from _problems_of(document, ROOT)
    for index, pool in enumerate(_pools(document)):
        yield from _problems_of(pool, f"{ROOT}.resource_pools[{index}]")


def _problems_of(owner: Any, where: str) -> Iterator[str]:
    section = owner.get("task_container_defaults") if isinstance(owner, Mapping) else None
    if not isinstance(section, Mapping):
        return
    where = f"{where}.task_container_defaults"
    try:
        containers = TaskContainerDefaults.model_validate(dict(section))
    except ValidationError as error:
        for problem in explain(error, TaskContainerDefaults, root=where):
            yield problem.line
        return
    if containers.image is not None:
        yield from image_problems(containers.image, root=where)


def _pools(document: Mapping[str, Any]) -> list[Any]:
    pools = document.get("resource_pools")
    return pools if isinstance(pools, list) else []


def _pool_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Names that must be unique, and names that must exist."""
    names = [p.get("pool_name") if isinstance(p, Mapping) else None for p in _pools(document)]
    known = list(dict.fromkeys(name for name in names if isinstance(name, str))) or [DEFAULT_POOL]
    manager = document.get("resource_manager")
    # Partitions are pools, too, and not known yet.
    all_known = not isinstance(manager, Mapping) or manager.get("type") not in ("slurm", "pbs")
    for index, (pool, name) in enumerate(zip(_pools(document), names, strict=True)):
        where = f"{ROOT}.resource_pools[{index}]"
        if isinstance(name, str) and name in names[:index]:
            yield f'{where}.pool_name: "{name}" is already the name of another pool'
        if (auto := _whose_pilots(name, _pools(document))) is not None:
            yield (
                f'{where}.pool_name: "{name}" is what the pilots of pool "{auto}" are called, which is of mode auto: '
                "take another name"
            )
        others = pool.get("fall_back_to") if isinstance(pool, Mapping) else None
        listed = others if isinstance(others, list) else []
        for place, other in enumerate(listed):
            if isinstance(other, str) and (
                why := _no_fall_back(other, name, listed[:place], known if all_known else [other])
            ):
                yield f'{where}.fall_back_to[{place}]: "{other}" {why}'
    yield from _default_pool_problems(manager, known)


def _whose_pilots(name: Any, pools: Iterable[Any]) -> str | None:
    """The pool of mode auto whose pilots have that name."""
    for pool in pools:
        section = pool if isinstance(pool, Mapping) else {}
        providers = [section.get("provider"), *(section.get("providers") or ())]
        is_auto = any(isinstance(one, Mapping) and one.get("mode") == "auto" for one in providers)
        if is_auto and name == pilot_side(str(section.get("pool_name"))):
            return str(section["pool_name"])
    return None


def _no_fall_back(other: str, name: Any, before: list[Any], known: list[str]) -> str:
    """Two pools may fall back to each other: what has left its pool goes only home again."""
    if other == name:
        return "is this pool itself: name other pools, or remove it"
    if other in before:
        return "is named twice: remove one"
    return "" if other in known else f"{_no_pool(known)}: name one of these, or remove it"


def _default_pool_problems(manager: Any, known: list[str]) -> Iterator[str]:
    section = manager if isinstance(manager, Mapping) else {}
    if section.get("type", "agent") != "agent":
        return
    for key in ("default_aux_resource_pool", "default_compute_resource_pool"):
        name = section.get(key)
        if isinstance(name, str) and name and name not in known:
            yield f'{ROOT}.resource_manager.{key}: "{name}" {_no_pool(known)}'


def _no_pool(known: list[str]) -> str:
    return f"is not a resource pool (there are {', '.join(known)})"


def _without_effect(config: MasterConfig, document: Mapping[str, Any]) -> Iterator[str]:
    yield from keys_without_effect(config, document)
    for where, defaults in _container_defaults(document):
        model = TaskContainerDefaults.model_validate(dict(defaults))
        yield from keys_without_effect(model, defaults, where, having=(CONTAINERS,))


def _container_defaults(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where each of the sections stands, and the section, as far as it is one."""
    owners = {"": document}
    owners |= {f"resource_pools[{i}].": pool for i, pool in enumerate(_pools(document))}
    for where, owner in owners.items():
        section = owner.get("task_container_defaults") if isinstance(owner, Mapping) else None
        if section and isinstance(section, Mapping):
            yield f"{where}task_container_defaults", section


def _logins_of_no_registry(document: Mapping[str, Any]) -> Iterator[str]:
    for where, defaults in _container_defaults(document):
        auth = defaults.get("registry_auth")
        if isinstance(auth, Mapping) and not (auth.get("serveraddress") or auth.get("server")):
            yield (
                f"{where}.registry_auth has no serveraddress: it is used for {DEFAULT_REGISTRY} only; "
                "name the registry that it is for"
            )


def _published_agents(config: MasterConfig) -> Iterator[str]:
    """Their image is in many existing files."""
    for index, pool in enumerate(config.resource_pools):
        for section in pool.all_providers:
            if not isinstance(section, CloudSection) or section.software_image:
                continue
            if section.agent_docker_image:
                yield (
                    f"resource_pools[{index}].provider.agent_docker_image has no effect: "
                    f"{section.agent_docker_image} has no Windlass"
                )


def _replaced_schedulers(document: Mapping[str, Any]) -> Iterator[str]:
    """A pool's own scheduler section is all or nothing, which surprises who sets one key of it."""
    manager = document.get("resource_manager")
    shared = manager.get("scheduler") if isinstance(manager, Mapping) else None
    if not isinstance(shared, Mapping):
        return
    for index, pool in enumerate(_pools(document)):
        own = pool.get("scheduler") if isinstance(pool, Mapping) else None
        if not isinstance(own, Mapping):
            continue
        lost = sorted(set(shared) - set(own))
        if lost:
            yield (
                f"resource_pools[{index}].scheduler replaces resource_manager.scheduler whole: "
                f"{', '.join(lost)} of the latter {'do' if len(lost) > 1 else 'does'} not apply here"
            )
