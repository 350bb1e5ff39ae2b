"""The master's own log and how much is logged, for administrators."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from master.api.access import Caller
from master.api.enums import LogLevel
from master.api.following import Still
from master.api.permits import CLUSTER, permit
from master.api.replies import Empty, JsonLines, Reply, reply
from master.api.request_models import Body, Int32, Word
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Timestamp, time
from master.auth.actions import Action
from master.logs.own_log import PAGE, OwnEntry, OwnLog
from windlass.base.errors import InvalidArgument

router = APIRouter(route_class=ApiRoute, tags=["master"])

WORDS = {
    "TRACE": "trace",
    "DEBUG": "debug",
    "INFO": "info",
    "WARNING": "warn",
    "ERROR": "error",
    "CRITICAL": "fatal",
}
"""Levels of the API, in the words of master.yaml."""
CHANGEABLE = ("log.level", "log.color")


class ReadOwnLog(QueryModel):
    follow: bool = False
    limit: Annotated[Int32, Field(ge=0)] = 0
    offset: Int32 = 0
    """Entries to leave out; negative: how many of the newest to show."""


class OwnLogEntry(TypedDict):
    id: int
    message: str
    timestamp: Timestamp
    level: LogLevel
    logger: str
    """What of the master wrote it: `audit` alone writes the audit log."""


class MasterLogsReply(TypedDict):
    logEntry: OwnLogEntry


@router.get("/api/v1/master/logs")
@permit(Action.VIEW_MASTER_LOGS, CLUSTER)
async def master_logs(
    query: Annotated[ReadOwnLog, Query()], api: TheApi, still: Still
) -> JsonLines[MasterLogsReply]:
    if query.follow and query.limit:
        raise InvalidArgument("limit: not together with follow: a followed log has no end")
    pages = _pages(api.services.own_log, query)
    permitted = still(None) if query.follow else None
    return JsonLines(pages, api.closing, eager=not query.follow, permitted=permitted)


async def _pages(own: OwnLog, query: ReadOwnLog) -> AsyncGenerator[Sequence[MasterLogsReply], None]:
    if query.follow:
        async with aclosing(own.follow(query.offset)) as pages:
            async for page in pages:
                yield [_shown(entry) for entry in page]
        return
    entries = own.entries(query.offset, query.limit)
    for start in range(0, len(entries), PAGE):
        yield [_shown(entry) for entry in entries[start : start + PAGE]]


def _shown(entry: OwnEntry) -> MasterLogsReply:
    return {
        "logEntry": {
            "id": entry.id,
            "message": entry.message,
            "timestamp": time(entry.time),
            "level": LogLevel.__members__.get(entry.level, LogLevel.UNSPECIFIED),
            "logger": entry.logger,
        }
    }


class LogSettings(Body):
    level: Annotated[str, Word("LOG_LEVEL_", tuple(WORDS))] = ""
    color: bool | None = None


class SomeConfig(Body):
    log: LogSettings = LogSettings()


def _from_text(value: object) -> object:
    return {"paths": value.split(",")} if isinstance(value, str) else value


class FieldMask(Body):
    paths: tuple[str, ...] = ()


class PatchMasterConfig(Body):
    config: SomeConfig = SomeConfig()
    field_mask: Annotated[FieldMask, BeforeValidator(_from_text)] = FieldMask()
    """What of `config` to set: log.level, log.color."""


@router.patch("/api/v1/master/config")
@permit(Action.ADMINISTRATE_CLUSTER, CLUSTER)
async def patch_config(body: PatchMasterConfig, principal: Caller, api: TheApi) -> Reply[Empty]:
    """Until the master restarts."""
    paths = body.field_mask.paths
    unknown = sorted(set(paths) - set(CHANGEABLE))
    if unknown or not paths:
        raise InvalidArgument(
            f"fieldMask.paths: {', '.join(unknown)[:80] or 'is empty'}: "
            "only log.level and log.color can be changed while the master runs"
        )
    new = body.config.log
    if "log.level" in paths and not new.level:
        raise InvalidArgument("config.log.level: must be one of LOG_LEVEL_" + ", ".join(WORDS))
    if "log.color" in paths and new.color is None:
        raise InvalidArgument("config.log.color: must be true or false")
    await api.services.own_log.change(
        by=principal,
        level=WORDS[new.level] if "log.level" in paths else None,
        color=new.color if "log.color" in paths else None,
    )
    return reply()
