"""The `checkpoint_storage` of a workspace: what lies under the configurations of its experiments. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError

from master.core.expconf.models.schema import Section
from master.core.expconf.models.storage import CheckpointStorage
from master.core.expconf.parsing.errors import explain
from master.core.expconf.parsing.normalise import normalise
from master.core.expconf.reading import refuse_masks
from master.core.expconf.storage_names import name_problems
from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonObject

WHAT = "checkpoint storage of the workspace"
_ROOT, _KEY, _SECTION = "<workspace>", "checkpointStorageConfig", "checkpoint_storage"


class _Holder(Section):
    storage: CheckpointStorage = Field(alias="checkpointStorageConfig")


def read_storage(document: Mapping[str, Any]) -> tuple[CheckpointStorage, JsonObject]:
    """As it is used, and as it is stored: keys that were not given are the cluster's or have their defaults later.

    Raises InvalidConfig unless it is complete.
    """
    section = normalise({_SECTION: dict(document)})[_SECTION]
    refuse_masks(section, what=WHAT)
    try:
        storage = _Holder.model_validate({_KEY: section}).storage
    except ValidationError as error:
        lines = [problem.line for problem in explain(error, _Holder, root=_ROOT)]
        raise InvalidConfig(lines, what=WHAT) from None
    if problems := list(name_problems(storage, f"{_ROOT}.{_KEY}")):
        raise InvalidConfig(problems, what=WHAT)
    return storage, {key: value for key, value in section.items() if value is not None}


def unusable_folder(problem: str) -> InvalidConfig:
    return InvalidConfig([f"{_ROOT}.{_KEY}.host_path: {problem}"], what=WHAT)
