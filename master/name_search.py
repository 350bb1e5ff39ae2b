"""Finding things by a part of their name or by their id, of every kind that the store has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    SQLColumnExpression,
    String,
    case,
    cast,
    false,
    func,
    literal,
    or_,
    select,
)

from master.core.names import plain_name
from master.core.visibility import Visibility
from master.store import tables
from master.store.sql.portable import fold, portable
from master.store.store import Store
from master.store.visible import (
    Conditions,
    experiment_visible,
    interactive_visible,
    project_visible,
    workspace_visible,
)

MAX_ID, MAX_DIGITS = 2**31 - 1, 10
_E, _T, _P, _W, _M, _S, _C = (
    tables.Experiment,
    tables.Trial,
    tables.Project,
    tables.Workspace,
    tables.Model,
    tables.Template,
    tables.Command,
)


class NamedKind(StrEnum):
    EXPERIMENT = "experiment"
    TRIAL = "trial"
    """By its id alone: it has no name."""
    PROJECT = "project"
    WORKSPACE = "workspace"
    MODEL = "model"
    TEMPLATE = "template"
    TASK = "task"
    USER = "user"
    POOL = "pool"
    AGENT = "agent"


class Match(StrEnum):
    """How well a name fits; in order."""

    WHOLE = "0"
    BEGINS = "1"
    CONTAINS = "2"


class Named(NamedTuple):
    match: Match
    kind: NamedKind
    id: str
    name: str
    detail: str = ""
    """Where it is, or what kind of task it is."""


def match_of(name: str, part: str) -> Match | None:
    """Of something that is not in the store."""
    name, part = fold(name), fold(part)
    if name == part:
        return Match.WHOLE
    return (Match.BEGINS if name.startswith(part) else Match.CONTAINS) if part in name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a reader may see of each kind."""

    workspaces: Visibility
    projects: Visibility
    experiments: Visibility
    artifacts: Visibility
    models: Visibility
    templates: Visibility
    interactive: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """One kind's table."""

    kind: NamedKind
    id: SQLColumnExpression[Any]
    has_id: ColumnElement[bool]
    """Whether it is the one that the text names by its id."""
    name: SQLColumnExpression[str]
    detail: SQLColumnExpression[str]
    newest: SQLColumnExpression[Any]
    begins_id: ColumnElement[bool] = field(default_factory=false)
    """Whether its id begins with the text."""
    joins: Sequence[tuple[Any, ColumnElement[bool]]] = ()
    seen: Conditions


class NameSearch:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._db = portable(store.dialect)

    async def found(self, text: str, sight: Sight, limit: int) -> list[Named]:
        """At most `limit` of each kind: the best ones, the newest first. `text`: a part of a name, or an id."""
        found: list[Named] = []
        for source in _sources(text, sight):
            found += await self._of(source, fold(plain_name(text)), limit)
        if (id_ := _number(text)) is not None:
            seen = experiment_visible(_T.experiment_id, sight.artifacts)
            trial = select(_T.id, _T.experiment_id).where(_T.id == id_, *seen)
            found += await self._store.read(trial, _trial)
        return found

    async def _of(self, source: _Source, part: str, limit: int) -> list[Named]:
        name = self._db.folded(source.name)
        match = case(
            (or_(name == part, source.has_id), Match.WHOLE.value),
            (or_(_begins(name, part), source.begins_id), Match.BEGINS.value),
            else_=Match.CONTAINS.value,
        )
        statement: Any = select(match, cast(source.id, String), source.name, source.detail)
        for table, on in source.joins:
            statement = statement.join(table, on)
        fits = or_(self._db.contains(name, part), source.has_id, source.begins_id)
        statement = statement.where(fits, *source.seen).order_by(match, source.newest.desc())

        def named(match: str, id_: str, name: str, detail: str) -> Named:
            return Named(Match(match), source.kind, id_, name, detail)

        return await self._store.read(statement.limit(limit), named)


def _sources(text: str, sight: Sight) -> list[_Source]:
    number = _number(text)

    def is_id(column: SQLColumnExpression[Any]) -> ColumnElement[bool]:
        return false() if number is None else column == number

    in_project = (_P, _P.id == _E.project_id)
    of_project = (_W, _W.id == _P.workspace_id)
    where = _W.name + " / " + _P.name
    return [
        _Source(
            kind=NamedKind.EXPERIMENT,
            id=_E.id,
            has_id=is_id(_E.id),
            name=_E.name,
            detail=where,
            newest=_E.id,
            joins=(in_project, of_project),
            seen=project_visible(_E.project_id, sight.experiments),
        ),
        _Source(
            kind=NamedKind.PROJECT,
            id=_P.id,
            has_id=is_id(_P.id),
            name=_P.name,
            detail=_W.name,
            newest=_P.id,
            joins=(of_project,),
            seen=workspace_visible(_P.workspace_id, sight.projects),
        ),
        _Source(
            kind=NamedKind.WORKSPACE,
            id=_W.id,
            has_id=is_id(_W.id),
            name=_W.name,
            detail=literal(""),
            newest=_W.id,
            seen=workspace_visible(_W.id, sight.workspaces),
        ),
        _Source(
            kind=NamedKind.MODEL,
            id=_M.id,
            has_id=is_id(_M.id),
            name=_M.name,
            detail=_W.name,
            newest=_M.id,
            joins=((_W, _W.id == _M.workspace_id),),
            seen=workspace_visible(_M.workspace_id, sight.models),
        ),
        _Source(
            kind=NamedKind.TEMPLATE,
            id=_S.id,
            has_id=false(),
            name=_S.name,
            detail=_W.name,
            newest=_S.id,
            joins=((_W, _W.id == _S.workspace_id),),
            seen=workspace_visible(_S.workspace_id, sight.templates),
        ),
        _Source(
            kind=NamedKind.TASK,
            id=_C.id,
            has_id=_C.id == text.lower(),
            begins_id=_begins(_C.id, text.lower()),
            name=_C.description,
            detail=_C.type,
            newest=_C.created_at,
            seen=interactive_visible(sight.interactive),
        ),
    ]


def _begins(column: SQLColumnExpression[Any], part: str) -> ColumnElement[bool]:
    return func.substr(column, 1, len(part)) == part


def _number(text: str) -> int | None:
    """The id that it is."""
    digits = text.removeprefix("#")
    known = digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS
    return int(digits) if known and int(digits) <= MAX_ID else None


def _trial(trial_id: int, experiment_id: int) -> Named:
    name = f"Trial {trial_id}"
    return Named(Match.WHOLE, NamedKind.TRIAL, str(trial_id), name, f"experiment {experiment_id}")
