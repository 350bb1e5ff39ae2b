"""From text to a checked document, and from documents to the complete configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError, create_model

from master.core.expconf.container_defaults import experiment_layer, prepend_batch_arguments
from master.core.expconf.images import environment_problems
from master.core.expconf.models.experiment import IGNORED_KEYS, ROOT, WHAT, ExperimentConfig
from master.core.expconf.models.hyperparameters import grid_gaps
from master.core.expconf.models.log_policies import BUILT_IN, merge_log_policies
from master.core.expconf.models.schema import DEFAULT_PRIORITY, Section
from master.core.expconf.models.searchers import REMOVED_SEARCHERS, SEARCHERS, TIMED_SEARCHERS
from master.core.expconf.models.storage import STORAGES
from master.core.expconf.parsing.errors import explain, first_problems, json_kind, path
from master.core.expconf.parsing.merging import merge
from master.core.expconf.parsing.normalise import normalise
from master.core.expconf.parsing.texts import text_problems
from master.core.expconf.secrets import MASK, holds_mask
from windlass.base.errors import InvalidConfig
from windlass.base.formats.documents import MalformedDocument, read_document


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefaults:
    """What lies under a user's configuration. The maps are raw sections, defaults not filled in."""

    task_container_defaults: Mapping[str, Any] = field(default_factory=dict)
    """The cluster's, the pool's already merged over it."""
    checkpoint_storage: Mapping[str, Any] = field(default_factory=dict)
    workspace_checkpoint_storage: Mapping[str, Any] = field(default_factory=dict)
    """Over the cluster's."""
    priority: int = DEFAULT_PRIORITY
    notebook_timeout_s: int | None = None
    """How long a notebook may be unused; None: for ever."""
    tensorboard_timeout_s: int | None = None


def parse(text: str) -> dict[str, Any]:
    """A document as a user wrote it, checked as far as it goes, in current form; keys may be missing.

    Raises `InvalidConfig` with every problem of names, types and ranges.
    """
    try:
        document = read_document(text)
    except MalformedDocument as error:
        raise InvalidConfig([f"{ROOT}: {error}"], what=WHAT) from None
    document = {} if document is None else document
    if not isinstance(document, dict):
        problem = f"{ROOT}: expected object, but got {json_kind(document)}"
        raise InvalidConfig([problem], what=WHAT)
    return check(document)


def check(document: Mapping[str, Any], *, what: str = WHAT) -> dict[str, Any]:
    """The same as `parse` for a document that is already a map. `what`: what an error calls it."""
    result = _without_version(normalise(document), what)
    # Before all else: what a text cannot be is no reason to show it in another complaint.
    problems = first_problems(text_problems(result, root=ROOT))
    if not problems:
        _, problems = _validate(result, partial=True)
    if problems:
        raise InvalidConfig(problems, what=what)
    return result


def complete(
    raw: Mapping[str, Any],
    *,
    defaults: ClusterDefaults,
    seed: int,
    name: str,
    unmanaged: bool = False,
) -> ExperimentConfig:
    """Cluster defaults under `raw`, then every remaining default; refuses what no new experiment may be.

    `seed` and `name` are used if the document gives none. `unmanaged`: nothing is run by the cluster, so there may be
    no entrypoint. Raises `InvalidConfig` with all problems.
    """
    document = _over_cluster(raw, defaults)
    document = {key: value for key, value in document.items() if key not in IGNORED_KEYS}
    document = merge(
        document,
        {
            "name": name,
            "reproducibility": {"experiment_seed": seed},
            "resources": {"priority": defaults.priority},
        },
    )
    refuse_masks(document, what=WHAT)
    policies = document.get("log_policies")
    if policies is None or isinstance(policies, list | tuple):
        document["log_policies"] = merge_log_policies(policies or (), BUILT_IN)
    config, problems = _validate(document, partial=False)
    problems = sorted({*problems, *_not_current(document, unmanaged=unmanaged)})
    if config is not None:
        problems += environment_problems(config.environment, root=f"{ROOT}.environment")
    if problems or config is None:
        raise InvalidConfig(problems, what=WHAT)
    return config


def refuse_masks(document: Mapping[str, Any], *, what: str) -> None:
    """Raises InvalidConfig: whoever forks the work of another is not given its secrets."""
    if holds_mask(document):
        problem = (
            f"{ROOT}: a secret is {MASK}, which is shown in the place of another user's: "
            "give environment variables, passwords and keys of your own, or leave them out"
        )
        raise InvalidConfig([problem], what=what)


def _over_cluster(raw: Mapping[str, Any], defaults: ClusterDefaults) -> dict[str, Any]:
    document = normalise(raw)
    containers = defaults.task_container_defaults
    document = prepend_batch_arguments(document, containers)
    resources = document.get("resources")
    aux = isinstance(resources, Mapping) and resources.get("slots_per_trial") == 0
    document = merge(document, experiment_layer(containers, aux=aux))
    for storage in (defaults.workspace_checkpoint_storage, defaults.checkpoint_storage):
        if storage:
            document = merge(document, {"checkpoint_storage": dict(storage)})
    return document


def _without_version(document: dict[str, Any], what: str) -> dict[str, Any]:
    version = document.pop("version", None)
    if version not in (None, 0):
        raise InvalidConfig([f"{ROOT}: invalid version: {version}"], what=what)
    return document


def _validate(
    document: Mapping[str, Any], *, partial: bool
) -> tuple[ExperimentConfig | None, list[str]]:
    """The model, or what is wrong. `partial`: keys that are only required eventually may be missing."""
    document, removed = _set_aside_removed_searcher(document)
    lines = set(_tagless_problems(document)) if partial else set[str]()
    config = None
    try:
        config = ExperimentConfig.model_validate(dict(document))
    except ValidationError as error:
        found = explain(error, ExperimentConfig, root=ROOT)
        lines |= {problem.line for problem in found if not (partial and problem.eventually)}
    if removed:
        lines.discard(f"{ROOT}: searcher is a required property")
    if _lacks_time(document):
        lines -= {f"{ROOT}.searcher: {key} is a required property" for key in _TIME_KEYS}
    return config, sorted(lines)


def _set_aside_removed_searcher(
    document: Mapping[str, Any],
) -> tuple[Mapping[str, Any], bool]:
    """Searchers of old releases parse with any keys; `_not_current` refuses them for new experiments."""
    if _searcher_name(document) not in REMOVED_SEARCHERS:
        return document, False
    return {key: value for key, value in document.items() if key != "searcher"}, True


def _searcher(document: Mapping[str, Any]) -> Mapping[str, Any]:
    searcher = document.get("searcher")
    return searcher if isinstance(searcher, Mapping) else {}


def _searcher_name(document: Mapping[str, Any]) -> str:
    """Empty for what is no name: the models refuse it."""
    name = _searcher(document).get("name")
    return name if isinstance(name, str) else ""


_TIME_KEYS = ("max_time", "time_metric")


def _lacks_time(document: Mapping[str, Any]) -> bool:
    searcher = _searcher(document)
    return _searcher_name(document) in TIMED_SEARCHERS and any(
        searcher.get(key) is None for key in _TIME_KEYS
    )


def _not_current(document: Mapping[str, Any], *, unmanaged: bool) -> Iterator[str]:
    """What a stored configuration may say but a new experiment may not."""
    name = _searcher_name(document)
    if not unmanaged and not document.get("entrypoint"):
        yield f"{ROOT}: managed experiments require entrypoint"
    if name in REMOVED_SEARCHERS:
        yield (
            f"{ROOT}.searcher: the '{name}' searcher has been removed "
            f"and is not valid for new experiments: use {REMOVED_SEARCHERS[name]}"
        )
    if _lacks_time(document):
        yield (
            f"{ROOT}.searcher: the `{name}` searcher requires `max_time` and `time_metric` to be set"
        )
    if name == "grid":
        for leaf in grid_gaps(document.get("hyperparameters")):
            where = path(ROOT, ("hyperparameters", *leaf))
            yield f"{where}: grid search is in use but count was not provided"
    yield from _slots_problem(document.get("resources"))


def _slots_problem(resources: Any) -> Iterator[str]:
    """A cap below the size of one trial: nothing could ever start. 0 says just that: hold everything back."""
    if not isinstance(resources, Mapping):
        return
    cap, slots = resources.get("max_slots"), resources.get("slots_per_trial", 1)
    if isinstance(cap, int) and isinstance(slots, int) and 0 < cap < slots:
        yield (
            f"{ROOT}.resources: max_slots ({cap}) must not be less than slots_per_trial ({slots}): "
            "no trial could ever start"
        )


def _tagless_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """A searcher without a name or a storage without a type, as in a template: any member's keys are fine."""
    for key, tag, model in (
        ("searcher", "name", _ANY_SEARCHER),
        ("checkpoint_storage", "type", _ANY_STORAGE),
    ):
        section = document.get(key)
        if not isinstance(section, Mapping) or section.get(tag) is not None:
            continue
        where = f"{ROOT}.{key}"
        try:
            model.model_validate(dict(section))
        except ValidationError as error:
            found = explain(error, model, root=where)
            yield from (problem.line for problem in found if not problem.eventually)


def _any_of(name: str, members: Sequence[type[Section]]) -> type[BaseModel]:
    """A model with the keys of all members, none required."""
    fields: dict[str, Any] = {}
    for member in members:
        for key, info in member.model_fields.items():
            fields.setdefault(key, (info.rebuild_annotation() | None, None))
    return create_model(name, __base__=Section, **fields)


_ANY_SEARCHER = _any_of("AnySearcher", SEARCHERS)
_ANY_STORAGE = _any_of("AnyStorage", STORAGES)
