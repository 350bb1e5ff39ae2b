"""Notes as pages show them: our own addition to the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.permits import CLUSTER, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Text
from master.api.routing import ApiRoute
from master.auth.actions import Action
from master.markdown import MarkdownNode, parse_markdown
from master.parsing import in_parsing_thread

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])

MAX_NOTE = 1_000_000


class MarkdownText(Body):
    text: Annotated[Text, Field(max_length=MAX_NOTE)] = ""


class MarkdownReply(TypedDict):
    nodes: list[MarkdownNode]


@router.post("/markdown")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def markdown(body: MarkdownText) -> Reply[MarkdownReply]:
    """The elements of a Markdown text. HTML in it is text, and so are links but those to web and mail addresses."""
    return reply({"nodes": await in_parsing_thread(parse_markdown, body.text)})
