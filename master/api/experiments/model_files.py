"""Single files of a model definition, for those who look at it without downloading all of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, RowId, Text
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import Timestamp, time
from master.auth.actions import Action
from master.core.visibility import Visibility
from master.parsing import in_parsing_thread
from master.store.context_files import ContextNode, file_tree, read_file

router = APIRouter(
    prefix="/api/v1/experiments/{experiment_id}", route_class=ApiRoute, tags=["experiments"]
)


class FileNode(TypedDict):
    path: str
    name: str
    modifiedTime: Timestamp
    contentLength: int
    isDir: bool
    contentType: str
    files: list[FileNode]
    """Of a directory."""


class FileTreeReply(TypedDict):
    files: list[FileNode]


class FileReply(TypedDict):
    file: str
    """Its content in base64."""


class WhichFile(Body):
    path: Text = ""


@router.get("/file_tree")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def model_file_tree(
    experiment_id: RowId, visible: Visible, api: TheApi
) -> Reply[FileTreeReply]:
    files = await in_parsing_thread(file_tree, await archive_of(api, experiment_id, visible))
    return reply({"files": _files(files)})


@router.post("/file")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def model_file(
    experiment_id: RowId, body: WhichFile, visible: Visible, api: TheApi
) -> Reply[FileReply]:
    archive = await archive_of(api, experiment_id, visible)
    found = await in_parsing_thread(read_file, archive, body.path)
    return reply({"file": base64.b64encode(found).decode()})


async def archive_of(api: ApiContext, experiment_id: int, visible: Visibility) -> bytes:
    """Its packed model definition; nothing for one that has none. Raises NotFound."""
    row = await api.reads.experiments.experiment(experiment_id, visible)
    blob = row.experiment.model_definition
    return await api.services.blobs.get(blob) if blob else b""


def _files(nodes: Mapping[str, ContextNode]) -> list[FileNode]:
    """Directories first, then by name."""
    ordered = sorted(nodes.items(), key=lambda item: (not item[1].is_directory, item[0]))
    return [_file(name, node) for name, node in ordered]


def _file(name: str, node: ContextNode) -> FileNode:
    return {
        "path": node.path,
        "name": name,
        "modifiedTime": time(datetime.fromtimestamp(node.mtime, UTC)),
        "contentLength": node.size,
        "isDir": node.is_directory,
        "contentType": node.content_type,
        "files": _files(node.children),
    }
