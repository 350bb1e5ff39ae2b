"""The `checkpoint_storage` section. Its JSON goes to the harness, which refuses keys it does not know."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from master.core.expconf.models.environment import PRIVATE
from master.core.expconf.models.schema import TAG_MARK, NonNegative, Section, member_of
from windlass.base.no_effect import NoEffect

COMMON_KEYS = frozenset({"save_experiment_best", "save_trial_best", "save_trial_latest"})
AZURE_ACCESS_KEYS = frozenset({"connection_string", "account_url", "credential"})
"""They belong together: mixing one document's account with another's credential would be neither's."""


def _no_way_up(prefix: str) -> str:
    if ".." in prefix.split("/"):
        raise ValueError("prefix cannot contain /../")
    return prefix


Prefix: TypeAlias = Annotated[str, AfterValidator(_no_way_up)]


UNUSED = NoEffect("it is of old releases: tasks find the storage at /determined_shared_fs")


class StorageBase(Section):
    """Which checkpoints are kept."""

    save_experiment_best: NonNegative = 0
    """How many of the best, over all trials."""
    save_trial_best: NonNegative = 1
    """How many of the best of each trial."""
    save_trial_latest: NonNegative = 1
    """How many of the newest of each trial."""


class SharedFsStorage(StorageBase):
    """A directory of the host, mounted into every task."""

    type: Literal["shared_fs"]
    """This kind."""
    host_path: str
    """On the agents' machines."""
    storage_path: str | None = None
    """Below `host_path`: a relative path, or an absolute one that begins with it."""
    propagation: Annotated[str, PRIVATE] = "rprivate"
    """Whether later mounts below it are seen on the other side."""
    container_path: Annotated[str | None, UNUSED] = None
    """Of old releases."""
    checkpoint_path: Annotated[str | None, UNUSED] = None
    """Of old releases."""
    tensorboard_path: Annotated[str | None, UNUSED] = None
    """Of old releases."""

    @field_validator("storage_path")
    @classmethod
    def _below_host_path(cls, value: str | None, others: ValidationInfo) -> str | None:
        host_path = others.data.get("host_path")
        if value is not None and host_path is not None and not _is_below(value, host_path):
            raise ValueError(
                "storage_path must either be a relative directory or a subdirectory of host_path"
            )
        return value

    @model_serializer(mode="wrap")
    def _without_unset_old_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        for key in ("container_path", "checkpoint_path", "tensorboard_path"):
            if document.get(key) is None:
                document.pop(key, None)
        return document


class DirectoryStorage(StorageBase):
    """A path that already exists wherever the task runs."""

    type: Literal["directory"]
    """This kind."""
    container_path: str
    """As the task sees it: on the agent's machine, or in one of the task's own bind mounts."""


class S3Storage(StorageBase):
    """A bucket of S3, or of what speaks its protocol."""

    type: Literal["s3"]
    """This kind."""
    bucket: str
    """Its name."""
    access_key: str | None = Field(default=None, repr=False)
    """None: what the machine may."""
    secret_key: str | None = Field(default=None, repr=False)
    """Of `access_key`."""
    endpoint_url: str | None = None
    """None: Amazon's."""
    prefix: Prefix | None = None
    """Before all names; without `..`."""


class GcsStorage(StorageBase):
    """A bucket of Google Cloud."""

    type: Literal["gcs"]
    """This kind."""
    bucket: str
    """Its name."""
    prefix: Prefix | None = None
    """Before all names; without `..`."""


class AzureStorage(StorageBase):
    """A container of Azure Blob Storage."""

    type: Literal["azure"]
    """This kind."""
    container: str
    """Its name."""
    connection_string: str | None = Field(default=None, repr=False)
    """Account and secret in one. Either this or `account_url`."""
    account_url: str | None = Field(default=None, validate_default=True)
    """The account."""
    credential: str | None = Field(default=None, repr=False)
    """Of `account_url`."""

    @field_validator("account_url")
    @classmethod
    def _one_way_in(cls, value: str | None, others: ValidationInfo) -> str | None:
        if "connection_string" in others.data and (value is None) == (
            others.data["connection_string"] is None
        ):
            raise ValueError("Exactly one of connection_string or account_url must be set")
        return value

    @field_validator("credential")
    @classmethod
    def _one_secret(cls, value: str | None, others: ValidationInfo) -> str | None:
        if value is not None and others.data.get("connection_string") is not None:
            raise ValueError("credential and connection_string must not both be set")
        return value


CheckpointStorage: TypeAlias = Annotated[
    Annotated[SharedFsStorage, Tag(TAG_MARK + "shared_fs")]
    | Annotated[DirectoryStorage, Tag(TAG_MARK + "directory")]
    | Annotated[S3Storage, Tag(TAG_MARK + "s3")]
    | Annotated[GcsStorage, Tag(TAG_MARK + "gcs")]
    | Annotated[AzureStorage, Tag(TAG_MARK + "azure")],
    member_of(
        "type",
        "must be one of shared_fs, directory, s3, gcs or azure",
    ),
]
STORAGES: tuple[type[StorageBase], ...] = (
    SharedFsStorage,
    DirectoryStorage,
    S3Storage,
    GcsStorage,
    AzureStorage,
)


def _is_below(storage_path: str, host_path: str) -> bool:
    """By path components, so that /a/bc is not below /a/b, and `..` may not climb out."""
    steps = PurePosixPath(storage_path).parts
    if PurePosixPath(storage_path).is_absolute():
        base = PurePosixPath(host_path).parts
        if steps[: len(base)] != base:
            return False
        steps = steps[len(base) :]
    depth = 0
    for step in steps:
        depth += -1 if step == ".." else 1
        if depth < 0:
            return False
    return True
