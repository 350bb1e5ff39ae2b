"""Finds lines in a model definition: our own addition to the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.experiments.model_files import archive_of
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import RowId
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.auth.actions import Action
from master.parsing import in_parsing_thread
from master.store.context_search import find_lines

router = APIRouter(
    prefix="/api/v1/windlass/experiments/{experiment_id}/code",
    route_class=ApiRoute,
    tags=["windlass"],
)

Wanted = Annotated[str, Query(min_length=1, max_length=200, description="Part of a line.")]


class CodeHit(TypedDict):
    path: str
    line: int
    """Counts from 1."""
    text: str
    """The line; of a long one the part around the first hit."""


class CodeHitsReply(TypedDict):
    hits: list[CodeHit]
    """By path and line; not more than 500."""
    total: int
    """Lines that contain the text."""
    files: int
    """Text files that were looked through."""


@router.get("/find")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def find_in_code(
    experiment_id: RowId, visible: Visible, api: TheApi, text: Wanted, ignoreCase: bool = False
) -> Reply[CodeHitsReply]:
    """Lines of text files of the model definition that contain a text."""
    archive = await archive_of(api, experiment_id, visible)
    found = await in_parsing_thread(find_lines, archive, text, ignore_case=ignoreCase)
    hits: list[CodeHit] = [
        {"path": hit.path, "line": hit.line, "text": hit.text} for hit in found.hits
    ]
    return reply({"hits": hits, "total": found.total, "files": found.files})
