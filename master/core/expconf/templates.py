"""Templates: configurations that lie under those of experiments and tasks that name them, and over the cluster's.

One may serve both: experiments read it strictly, tasks leave out what they do not know. What neither could use is
refused when it is stored, and so is a template without a key that one of them knows; what only one can use is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel

from master.core.expconf.images import environment_problems
from master.core.expconf.interactive import InteractiveConfig, TaskConfig
from master.core.expconf.models.environment import Environment
from master.core.expconf.models.experiment import ROOT, ExperimentConfig
from master.core.expconf.parsing.errors import as_model, first_problems, step
from master.core.expconf.parsing.merging import merge
from master.core.expconf.parsing.normalise import normalise
from master.core.expconf.parsing.texts import text_problems
from master.core.expconf.reading import check, refuse_masks
from master.core.names import check_name, plain_name
from windlass.base.errors import InvalidArgument, InvalidConfig
from windlass.base.formats.documents import MalformedDocument, plain, shown
from windlass.base.formats.json_types import JsonMapping, JsonObject

_WHAT = "template"


class AnyTask(InteractiveConfig):
    """Knows the keys of all kinds of tasks that take templates."""

    noun: ClassVar[str] = "task"
    title: ClassVar[str] = "Task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    name: str
    config: JsonMapping
    """As it was written."""

    @property
    def what(self) -> str:
        """What an error calls it."""
        return f"{_WHAT} {shown(self.name)}"


def new_name(name: str, *, field: str = "name") -> str:
    """In its one spelling. Raises InvalidArgument for one that no URL could lead to, or that looks like another."""
    name = plain_name(name)
    if not name or name != name.strip():
        raise InvalidArgument(f"{field}: must neither be empty nor begin or end with a blank")
    check_name(name, field=field)
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise InvalidArgument(
            f'{field}: "." and ".." are no names, and a slash stands between two parts of a name'
        )
    return name


def check_template(config: JsonMapping) -> tuple[str, ...]:
    """Who cannot use it, in sentences. Raises InvalidConfig with every key that is wrong for all who know it."""
    try:
        document = plain(config)
    except MalformedDocument as error:
        raise InvalidConfig([f"{ROOT}: {error}"], what=_WHAT) from None
    if problems := first_problems(text_problems(normalise(document), root=ROOT)):
        raise InvalidConfig(problems, what=_WHAT)
    refuse_masks(document, what=_WHAT)
    refused: list[str] = []
    of_experiments: list[str] = []
    of_tasks: list[str] = []
    unknown: list[str] = []
    is_of_use = False
    for piece in _pieces(document):
        as_experiment, as_task = _as_experiment(piece), _as_task(piece)
        known = [
            problems
            for model, problems in ((ExperimentConfig, as_experiment), (AnyTask, as_task))
            if _knows(model, piece)
        ]
        if known or not as_experiment:
            is_of_use = True
        else:
            unknown += as_experiment
        if known and all(known):
            refused += known[0]
        else:
            of_experiments += as_experiment
            of_tasks += as_task
    if not is_of_use:
        refused += unknown
    if refused:
        raise InvalidConfig(first_problems(_once(refused)), what=_WHAT)
    return (
        *_told("experiments", of_experiments),
        *_told("interactive tasks", of_tasks),
    )


def over_template(raw: JsonMapping, template: Template | None) -> JsonObject:
    """The configuration of an experiment over a template, which is read strictly. Raises InvalidConfig."""
    if template is None:
        return dict(raw)
    return merge(raw, check(template.config, what=template.what))


def task_over_template(
    model: type[TaskConfig], raw: JsonMapping, template: Template | None
) -> JsonObject:
    """The configuration of a task over what tasks of its kind know of a template."""
    if template is None:
        return dict(raw)
    return merge(raw, known_part(model, normalise(template.config)))


@contextmanager
def naming(template: Template | None) -> Iterator[None]:
    """A problem of a configuration may be the template's: the error names it."""
    try:
        yield
    except InvalidConfig as error:
        if template is None or error.what == template.what:
            raise
        what = f"{error.what} with {template.what}"
        raise InvalidConfig(error.problems, what=what) from None


def known_part(model: type[BaseModel], document: Mapping[str, Any]) -> JsonObject:
    """The document in current form without the keys that a model does not have, at any depth."""
    keys = {info.alias or name for name, info in model.model_fields.items()}
    return {key: _known(step(model, key), value) for key, value in document.items() if key in keys}


def _known(annotation: Any, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_known(step(annotation, at), item) for at, item in enumerate(value)]
    model = as_model(annotation)
    return known_part(model, value) if model and isinstance(value, Mapping) else value


def _pieces(document: JsonMapping) -> Iterator[JsonObject]:
    """Key by key, as far as experiments and tasks know different ones."""
    for key, value in document.items():
        if key == "resources" and isinstance(value, Mapping):
            yield from ({key: {name: one}} for name, one in value.items() if one is not None)
        elif value is not None:
            yield {key: value}


def _knows(model: type[BaseModel], piece: JsonMapping) -> bool:
    known = known_part(model, piece)
    return any(
        known.get(key) not in (None, {}) or value == {}
        for key, value in piece.items()
        if key in known
    )


def _as_experiment(piece: JsonMapping) -> list[str]:
    """What is wrong with it."""
    try:
        check(piece)
    except InvalidConfig as error:
        return list(error.problems)
    return _images(piece)


def _as_task(piece: JsonMapping) -> list[str]:
    known = known_part(AnyTask, normalise(piece))
    try:
        AnyTask.from_json({"description": "", **known})
    except InvalidConfig as error:
        return list(error.problems)
    return _images(known)


def _images(piece: JsonMapping) -> list[str]:
    """What is wrong with a section that has the right form."""
    given = known_part(Environment, normalise(piece).get("environment") or {})
    environment = Environment.model_validate(given)
    return [*environment_problems(environment, root=f"{ROOT}.environment")]


def _told(who: str, problems: Iterable[str]) -> Iterator[str]:
    if lines := first_problems(_once(problems)):
        yield f"{who} cannot use this template: {'; '.join(lines)}"


def _once(lines: Iterable[str]) -> list[str]:
    return sorted(set(lines))
