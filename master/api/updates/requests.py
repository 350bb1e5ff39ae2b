"""What a client of `/stream` sends: what it wants to hear of, and what it knows already."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from master.api.http.json_text import loads
from master.api.request_models import MAX_ID
from master.core.updates.ranges import IdRanges, parse_ranges
from master.core.updates.subscription import Feature, Filter
from master.store.sql.changes import MODELS, PROJECTS, VERSIONS
from master.updates.hub import Subscription
from windlass.base.errors import InvalidArgument

MAX_MESSAGE = 1024 * 1024
"""Characters: some hundred thousand ids in ranges."""
MAX_IDS = 5_000
"""Of one list: databases limit what one query may name."""

Ids: TypeAlias = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MAX_ID)], ...], Field(max_length=MAX_IDS)
]


class _Part(BaseModel):
    """Null is the same as nothing; an unknown key is a mistake, which would else mean that nothing is told."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in data.items()
                if value is not None
            }
        return data


class _Wanted(_Part):
    since: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0

    def filter(self, **features: Ids) -> Filter:
        chosen: set[Feature] = set()
        for feature, values in features.items():
            chosen.update((feature, value) for value in values)
        return Filter(frozenset(chosen))


class WantedProjects(_Wanted):
    workspace_ids: Ids = ()
    project_ids: Ids = ()

    def wanted(self) -> Filter:
        return self.filter(workspace=self.workspace_ids, id=self.project_ids)


class WantedModels(_Wanted):
    workspace_ids: Ids = ()
    model_ids: Ids = ()
    user_ids: Ids = ()

    def wanted(self) -> Filter:
        return self.filter(workspace=self.workspace_ids, id=self.model_ids, user=self.user_ids)


class WantedVersions(_Wanted):
    model_ids: Ids = ()
    model_version_ids: Ids = ()
    user_ids: Ids = ()

    def wanted(self) -> Filter:
        return self.filter(model=self.model_ids, id=self.model_version_ids, user=self.user_ids)


class _Subscribe(_Part):
    projects: WantedProjects | None = None
    models: WantedModels | None = None
    modelversions: WantedVersions | None = None


class _Known(_Part):
    projects: str = ""
    models: str = ""
    modelversions: str = ""


class _Message(_Part):
    sync_id: str = Field(default="", max_length=256)
    known: _Known = _Known()
    subscribe: _Subscribe = _Subscribe()


def parse_subscription(text: str) -> Subscription:
    """Raises InvalidArgument, which names the field."""
    if len(text) > MAX_MESSAGE:
        raise InvalidArgument(f"message: is longer than {MAX_MESSAGE} characters")
    try:
        message = _Message.model_validate(loads(text.encode()))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "message"
        raise InvalidArgument(f"{path}: {first['msg']}") from None
    except ValueError:
        raise InvalidArgument("message: is not valid JSON") from None
    wanted = {
        name: part
        for name, part in (
            (PROJECTS, message.subscribe.projects),
            (MODELS, message.subscribe.models),
            (VERSIONS, message.subscribe.modelversions),
        )
        if part is not None
    }
    known: dict[str, IdRanges] = {}
    for name in (PROJECTS, MODELS, VERSIONS):
        if said := getattr(message.known, name):
            known[name] = parse_ranges(said, field=f"known.{name}")
    return Subscription(
        sync_id=message.sync_id,
        filters={name: part.wanted() for name, part in wanted.items()},
        since={name: part.since for name, part in wanted.items()},
        known=known,
    )
