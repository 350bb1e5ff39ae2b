"""The folder of a cluster in a cloud: Terraform's files and state, and how far the last command came.

*.tf, modules/         ours, copied at each `up`
terraform.tfvars.json  what it is made with; no secret
backend.tf.json        where the state is, if in a bucket
terraform.tfstate      the state, if not
cluster.json           `Record`
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from platformdirs import user_data_path

from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.files import write_atomic
from windlass.base.formats.json_types import JsonMapping, JsonObject
from windlass.deploy.cloud.field_types import CLUSTER_ID


class DeployPhase(StrEnum):
    """What was begun last: written before it is."""

    MAKING = "making"
    UP = "up"
    REMOVING = "removing"
    DOWN = "down"
    """Only data is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    phase: DeployPhase = DeployPhase.MAKING
    secrets_version: int = 1
    written_version: int = 0
    """The version that everything has that needs the secret. Behind `secrets_version`: an `up` failed half way."""
    secrets_digests: Mapping[str, str] = field(default_factory=dict)
    """Of what options gave, by a slow hash: whether they give something else the next time."""
    address: str = ""
    deletes_data: bool = False
    """A removal that was begun with --delete-data is ended so."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    cloud: str
    cluster_id: str
    path: Path

    @property
    def record(self) -> Record | None:
        """None: no such cluster was made from here."""
        try:
            content = json.loads((self.path / "cluster.json").read_bytes())
            return Record(**{**content, "phase": DeployPhase(content["phase"])})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            raise Conflict(
                f"{self.path / 'cluster.json'} is damaged: remove it, and run up again with the same options"
            ) from None

    def note(self, record: Record) -> None:
        text = json.dumps(asdict(record), indent=2)
        write_atomic(self.path / "cluster.json", text.encode(), durable=True)

    @property
    def variables(self) -> JsonObject:
        try:
            content: JsonObject = json.loads((self.path / "terraform.tfvars.json").read_bytes())
        except FileNotFoundError:
            return {}
        return content

    def write_variables(self, variables: JsonMapping) -> None:
        text = json.dumps(variables, indent=2, sort_keys=True)
        write_atomic(self.path / "terraform.tfvars.json", text.encode(), durable=True)

    def use_backend(self, backend: JsonMapping | None) -> None:
        """Of Terraform. None: the state stays here."""
        file = self.path / "backend.tf.json"
        if backend is None:
            file.unlink(missing_ok=True)
            return
        document = {"terraform": {"backend": backend}}
        write_atomic(file, json.dumps(document, indent=2).encode(), durable=True)

    @property
    def bucket(self) -> str:
        """With the state; empty: it is here."""
        try:
            content = json.loads((self.path / "backend.tf.json").read_bytes())
        except FileNotFoundError:
            return ""
        (place,) = content["terraform"]["backend"].values()
        return str(place["bucket"])

    @property
    def has_state(self) -> bool:
        """Terraform's, which nobody has but us."""
        return (self.path / "terraform.tfstate").exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Conflict(
                f"Another det deploy works on {self.cluster_id} in {self.path}: wait until it ends"
            ) from None
        finally:
            os.close(descriptor)


def folder_of(cloud: str, cluster_id: str, root: Path | None) -> StateFolder:
    """Raises InvalidArgument for what is no name: an empty one would be the folder of all clusters."""
    if not CLUSTER_ID.fullmatch(cluster_id):
        raise InvalidArgument(
            f'--cluster-id: "{cluster_id}" must begin with a letter and have only letters, digits and -'
        )
    return StateFolder(cloud, cluster_id, root_of(cloud, root) / cluster_id)


def folders(cloud: str, root: Path | None) -> list[StateFolder]:
    found = root_of(cloud, root).glob("*/cluster.json")
    return [StateFolder(cloud, path.parent.name, path.parent) for path in sorted(found)]


def root_of(cloud: str, root: Path | None) -> Path:
    if root is not None:
        return root.absolute() / cloud
    return user_data_path("windlass") / "deploy" / cloud


def digest_of(text: str, salt: bytes) -> str:
    return salt.hex() + ":" + hashlib.scrypt(text.encode(), salt=salt, n=2**14, r=8, p=1).hex()


def is_digest_of(digest: str, text: str) -> bool:
    salt = digest.partition(":")[0]
    return bool(digest) and digest_of(text, bytes.fromhex(salt)) == digest
