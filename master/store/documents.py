"""JSON columns that hold our own types have a version, so that a later release can read them.

Version 1 is the form of release 0.1.0 and is written as it is; later ones as `{"$version": 2, "$document": ...}`. The
column brings what is read to the newest form: whoever reads a row, for a restart or for a reply, knows only that one.
To rename or remove a field, or to change what it means, append a function from the last form to the new one to the
upcasters of its kind. A new field with a default needs nothing. A column of a user's own data is a `json_column`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import JSON, Column, Dialect, TypeDecorator
from sqlmodel import Field

from windlass.base.errors import UnreadableDocument
from windlass.base.formats.json_types import JsonObject

VERSION, BODY = "$version", "$document"

Upcaster: TypeAlias = Callable[[Any], Any]
"""From the JSON of one version to that of the next. Pure; it may change what it is given."""


@dataclass(eq=False)
class DocumentKind:
    """`upcasters[0]` makes version 2 of version 1, and so on. They stay for ever: data folders are older than code."""

    name: str
    upcasters: tuple[Upcaster, ...] = ()

    @property
    def version(self) -> int:
        return 1 + len(self.upcasters)

    def write(self, document: Any) -> Any:
        """As it is stored."""
        return document if self.version == 1 else {VERSION: self.version, BODY: document}

    def read(self, stored: Any) -> Any:
        """In the newest form. Raises UnreadableDocument for a version of a newer release."""
        version, document = 1, stored
        if isinstance(stored, dict) and VERSION in stored:
            version, document = stored[VERSION], stored[BODY]
        if version > self.version:
            problem = f"it has version {version}, this release knows {self.version}"
            raise UnreadableDocument(f"the {self.name} in the store", problem)
        for upcast in self.upcasters[version - 1 :]:
            document = upcast(document)
        return document


def _without_own_version(snapshot: JsonObject) -> JsonObject:
    """0.1.0 kept a version of its own in snapshots."""
    return {key: value for key, value in snapshot.items() if key != "version"}


ALLOCATION = DocumentKind("state of an allocation")
METRIC_GROUPS = DocumentKind("newest metrics of a trial")
METRIC_SUMMARY = DocumentKind("metrics summary of a trial")
METRIC_REPORT = DocumentKind("metrics report")
SEARCHER_EVENT = DocumentKind("event of a search")
SEARCHER_ACTIONS = DocumentKind("actions of a search")
SEARCHER_SNAPSHOT = DocumentKind("snapshot of a search", (_without_own_version,))
EXPERIMENT_CONFIG = DocumentKind("configuration of an experiment")
CONFIG_ORIGINS = DocumentKind("origins of a configuration")
TASK_CONFIG = DocumentKind("configuration of a task")
TASK_DETAILS = DocumentKind("details of a task")
STORAGE_CONFIG = DocumentKind("configuration of a checkpoint storage")
MODEL_FILES = DocumentKind("list of model files")
SLOT_SERVICE = DocumentKind("list of slots out of service")
FLEET_INTENT = DocumentKind("launch intent")
FLEET_INSTANCE = DocumentKind("record of an instance")
BATCH_LEASE = DocumentKind("record of a batch job")
FLEET_MEMORY = DocumentKind("memory of the fleet")
FLEET_BAKE = DocumentKind("record of a bake")
FLEET_DECISION = DocumentKind("decision of the planner")
FLEET_LESSON = DocumentKind("memory of an offer")


class DocumentType(TypeDecorator[Any]):
    """The type of a column with documents of one kind."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, kind: DocumentKind) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.kind.write(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.kind.read(value)


def document_column(kind: DocumentKind, *, nullable: bool = False) -> Any:
    return Field(sa_column=Column(DocumentType(kind), nullable=nullable))
