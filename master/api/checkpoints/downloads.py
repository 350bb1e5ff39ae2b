"""`GET /checkpoints/{uuid}`: a checkpoint as one archive."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from email.message import Message
from functools import partial
from typing import Annotated, NamedTuple

import structlog
from fastapi import APIRouter, Header, HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from master.api.access import Caller, Visible
from master.api.errors import Stopping, error_response, status_of
from master.api.http.held import ServerStop, WhileWanted
from master.api.permits import VISIBLE, permit
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.auth.actions import Action
from master.checkpoints.workers import Archive
from windlass.base.errors import InvalidArgument, NotFound, WindlassError
from windlass.storage.archives import Format

log = structlog.get_logger(__name__)
router = APIRouter(route_class=ApiRoute, tags=["checkpoints"])


class ArchiveKind(NamedTuple):
    format: Format
    media_type: str
    suffix: str


TAR = ArchiveKind("tar", "application/x-tar", "tar")
KINDS = {
    "application/gzip": ArchiveKind("tar.gz", "application/gzip", "tar.gz"),
    "application/zip": ArchiveKind("zip", "application/zip", "zip"),
    "application/x-tar": TAR,
    "application/*": TAR,
    "*/*": TAR,
}


class ArchiveResponse(Response):
    """For the description: TAR is what one who does not say gets."""

    media_type = TAR.media_type


_BYTES = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/checkpoints/{checkpoint_uuid}",
    response_class=ArchiveResponse,
    responses={200: {"content": {kind.media_type: _BYTES for kind in KINDS.values()}}},
)
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def download(
    checkpoint_uuid: str,
    principal: Caller,
    visible: Visible,
    api: TheApi,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    kind = _kind(accept)
    try:
        row = await api.reads.checkpoints.checkpoint(checkpoint_uuid, visible)
    except NotFound:
        _require_uuid(checkpoint_uuid)
        raise
    owns = visible.shows_secrets_of(row.experiment_owner)
    return ArchiveReply(
        partial(
            api.services.downloads.archive,
            checkpoint_uuid,
            kind.format,
            owns=owns,
            by=principal.user_id,
        ),
        checkpoint_uuid,
        kind,
        closing=api.closing,
    )


def _kind(accept: str) -> ArchiveKind:
    """The first that we have, in the order of the header."""
    for part in accept.split(","):
        kind = KINDS.get(part.partition(";")[0].strip().lower())
        if kind is not None:
            return kind
    have = ", ".join(kind.media_type for kind in KINDS.values() if kind is not TAR)
    raise HTTPException(415, f"Accept: {accept[:80]!r} is none of {TAR.media_type}, {have}")


def _require_uuid(text: str) -> None:
    try:
        uuids.UUID(text)
    except ValueError:
        raise InvalidArgument(f"checkpoint uuid: {text[:80]!r} is not a UUID") from None


class ArchiveReply(Response):
    """Nobody is sent an archive that looks whole and is not: one that is cut short ends the connection."""

    def __init__(
        self,
        opened: Callable[[], AbstractAsyncContextManager[Archive]],
        uuid: str,
        kind: ArchiveKind,
        *,
        closing: ServerStop,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.body = b""
        self._opened = opened
        self._uuid = uuid
        self._closing = closing
        name = Message()
        name.add_header("Content-Disposition", "attachment", filename=f"{uuid}.{kind.suffix}")
        self.raw_headers = [
            (b"content-type", kind.media_type.encode()),
            (b"content-disposition", name["Content-Disposition"].encode()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False
        try:
            with suppress(Stopping):
                async with (
                    WhileWanted(receive, self._closing),
                    self._opened() as archive,
                ):
                    start = {"type": "http.response.start", "status": 200}
                    await send({**start, "headers": self.raw_headers})
                    begun = True
                    async for piece in archive.pieces():
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        except WindlassError as error:
            if begun:
                # Without its last chunk: the server hangs up.
                log.warning("download cut short", checkpoint=self._uuid, error=error.message)
            else:
                await error_response(status_of(error), error.message)(scope, receive, send)
