"""How a local cluster is started, and what `cluster.json` remembers of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from windlass.base.errors import Conflict
from windlass.base.files import write_atomic
from windlass.deploy.local import DEFAULT_PORT
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.records import ProcessRecord

LOOPBACK = "127.0.0.1"


class Options(BaseModel):
    """Of `cluster-up` and `master-up`. What was given is remembered for `--restart`; the rest are defaults."""

    model_config = ConfigDict(frozen=True)

    cluster_name: str | None = None
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    agents: int = 1
    slots: int | None = None
    """Artificial ones, of each agent."""
    gpu: bool | None = None
    """None: GPUs if there are some."""
    pool: str | None = None
    """Of the agents. None: `default`, or the first one without a provider."""
    master_config: Path | None = None
    storage_host_path: Path | None = None
    auto_work_dir: Path | None = None
    autorestart: bool = True
    tls: bool = False

    def over(self, older: Options) -> Options:
        """Ours where given, else the older ones."""
        return Options(**{**older.given, **self.given})

    @property
    def given(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True)

    @property
    def url(self) -> str:
        """By which this machine reaches the master."""
        host = LOOPBACK if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls else 'http'}://{shown}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """The content of `cluster.json`."""

    url: str = ""
    """Of the master, here or elsewhere."""
    options: Options = field(default_factory=Options)
    older_processes: tuple[ProcessRecord, ...] = ()
    """As release 0.1 noted them."""

    @classmethod
    def read(cls, folder: ClusterFolder) -> ClusterRecord:
        try:
            content = dict(json.loads(folder.state_file.read_bytes()))
            options = Options(**content.get("options") or {})
            older = tuple(ProcessRecord(**r) for r in content.get("processes") or ())
            return cls(url=str(content["url"]), options=options, older_processes=older)
        except FileNotFoundError:
            return cls()
        except (ValueError, TypeError, KeyError, ValidationError):
            raise Conflict(
                f"{folder.state_file} is damaged: remove it; the next start makes another"
            ) from None

    def write(self, folder: ClusterFolder) -> None:
        content = {
            "url": self.url,
            "options": self.options.model_dump(mode="json", exclude_unset=True),
            "processes": [
                {"name": r.name, "pid": r.pid, "started": r.started, "boot_id": r.boot_id}
                for r in self.older_processes
            ],
        }
        write_atomic(folder.state_file, json.dumps(content, indent=2).encode())

    def at(self, url: str) -> ClusterRecord:
        return replace(self, url=url)


def names_of_host(url: str) -> tuple[str, ...]:
    """The URL, by both names of this machine where it is on loopback."""
    parts = urlsplit(url)
    if parts.hostname != LOOPBACK:
        return (url,)
    return (url, f"{parts.scheme}://localhost:{parts.port}")
