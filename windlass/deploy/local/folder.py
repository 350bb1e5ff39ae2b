"""The folder of a local cluster: what is where, and one `det deploy` command at a time.

cluster.json            its URL, and the options it was started with
services/NAME.json      what the keeper of a process runs; NAME.state: how it goes
master/                 the master's data folder, initial-password among it
master.yaml             what `cluster-up` made of its options and the operator's master.yaml
certificate.pem         of a master with TLS; certificate.name: to be expected in it, where not its host
agents/NAME/            work directory of an agent
join-tokens/POOL        how agents join (0600)
backups/                made before a new version changes the tables
deleted/                what --delete-db has set aside
logs/NAME.log           what the processes print
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from platformdirs import user_data_path

from windlass.base.errors import Conflict, InvalidArgument

DEFAULT_NAME = "local"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    path: Path

    @property
    def state_file(self) -> Path:
        return self.path / "cluster.json"

    @property
    def services(self) -> Path:
        return self.path / "services"

    @property
    def master(self) -> Path:
        return self.path / "master"

    @property
    def master_yaml(self) -> Path:
        return self.path / "master.yaml"

    @property
    def password_file(self) -> Path:
        """The master makes one unless it is told a password; so that it is on no command line, we tell it here."""
        return self.master / "initial-password"

    @property
    def certificate(self) -> Path:
        return self.path / "certificate.pem"

    @property
    def certificate_name(self) -> Path:
        return self.path / "certificate.name"

    @property
    def agents(self) -> Path:
        return self.path / "agents"

    def agent(self, name: str) -> Path:
        return self.agents / name

    def join_token(self, pool: str) -> Path:
        return self.path / "join-tokens" / quote(pool, safe="")

    @property
    def backups(self) -> Path:
        return self.path / "backups"

    @property
    def deleted(self) -> Path:
        return self.path / "deleted"

    @property
    def has_master(self) -> bool:
        return (self.master / "secret").exists()

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Made if need be. Raises Conflict while another command works on it, InvalidArgument if it cannot be used."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self.path / "deploy.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidArgument(
                f"{self.path} cannot be used as the folder of the cluster ({error.strerror}): "
                "give another with --data-dir"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Conflict(
                f"Another `det deploy local` command works on {self.path}: try again when it is done"
            ) from None
        finally:
            os.close(lock)


def folder_of(name: str | None, data_dir: Path | None) -> ClusterFolder:
    """Of the cluster with that name, or the one given."""
    if name is not None and _NAME.fullmatch(name) is None:
        raise InvalidArgument(
            f'--cluster-name "{name}": use at most 63 letters, digits and . _ -, the first a letter or digit'
        )
    if data_dir is not None:
        return ClusterFolder(data_dir.absolute())
    home = user_data_path("windlass")
    if name is None or name == DEFAULT_NAME:
        return ClusterFolder(home / DEFAULT_NAME)
    return ClusterFolder(home / "clusters" / name)
