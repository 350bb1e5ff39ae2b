"""Launching an interactive task: the options that all kinds take, and the request that they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.completion import TemplateOption
from windlass.cli.config_file import naming, read_settings, tell_warnings
from windlass.cli.find import find
from windlass.cli.interactive.kinds import CliKind
from windlass.cli.output.progress import upload
from windlass.cli.output.text import notice
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

WorkspaceOption = Annotated[
    str | None, typer.Option("-w", "--workspace-name", help="Use this workspace.")
]
DetachOption = Annotated[
    bool, typer.Option("-d", "--detach", help="Print the id and return at once.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """Of commands that launch a task; `launch` does it as they say."""

    config_file: Annotated[
        Path | None, typer.Option("--config-file", help="Configuration of the task (YAML).")
    ] = None
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Override a key: resources.slots=2")
    ] = None
    template: TemplateOption = None
    workspace: WorkspaceOption = None
    context: Annotated[
        Path | None,
        typer.Option(
            "-c", "--context", help="Upload this directory into the task's working directory."
        ),
    ] = None
    include: Annotated[
        list[Path] | None,
        typer.Option("-i", "--include", help="Upload a further file or directory."),
    ] = None
    volume: Annotated[
        list[str] | None,
        typer.Option("-v", "--volume", help="Mount a host path: /host/path:/task/path"),
    ] = None

    def document(self) -> dict[str, Any]:
        """The configuration as it is sent. Raises InvalidArgument, InvalidConfig."""
        return _with_volumes(read_settings(self.config_file, self.config or []), self.volume or [])

    def launch(self, client: Client, kind: CliKind, document: Json, **more: object) -> Json:
        """The master's answer, of whose warnings the user knows. `more`: keys of the request that the kind has."""
        from windlass.sdk.context_dir import pack_directory

        packed = pack_directory(self.context, self.include or [])
        for line in packed.notices:
            notice(line)
        more["templateName"] = self.template
        more["workspaceId"] = workspace_id(client, self.workspace)
        with naming(self.config_file), upload(client.session, "Uploading files"):
            answer = kind.of(client).launch(document, packed.files, **more)
        tell_warnings(kind.name, answer)
        return answer


def told(kind: CliKind, answer: Json) -> str:
    """Says what was launched. Its id."""
    one = answer[kind.wire.one]
    notice(f"Launched {kind.name} {one['id']} ({one['description']})")
    return str(one["id"])


def workspace_id(client: Client, name: str | None) -> int | None:
    """Raises NotFound."""
    if name is None:
        return None
    known = {str(one["name"]): int(one["id"]) for one in client.workspaces()}
    return known[find("workspace", name, known)]


def _with_volumes(document: dict[str, Any], volumes: list[str]) -> dict[str, Any]:
    mounts = []
    for volume in volumes:
        host, separator, container = volume.partition(":")
        if not (separator and host and container):
            raise InvalidArgument(f"--volume {volume}: expected /host/path:/task/path")
        mounts.append({"host_path": host, "container_path": container})
    if not mounts:
        return document
    given = document.get("bind_mounts") or []
    if not isinstance(given, list):
        raise InvalidArgument("bind_mounts: expected a list of mounts, to which --volume adds")
    return {**document, "bind_mounts": [*given, *mounts]}
