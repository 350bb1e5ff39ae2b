"""Finding anything by its name or id: our own addition to the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Text
from master.api.resource_pools.shown import shown_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.auth.actions import Action
from master.auth.permissions import allowed, visibility
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.name_search import Match, Named, NamedKind, Sight, match_of

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])

MOST_TEXT, MOST_FOUND, DEFAULT_FOUND = 200, 100, 20

Sought = Annotated[
    Text,
    Field(max_length=MOST_TEXT),
    AfterValidator(str.strip),
    Query(description="A part of a name, or an id; nothing finds nothing."),
]


class FoundThing(TypedDict):
    kind: NamedKind
    id: str
    """Of users, pools and agents: by which the API names them."""
    name: str
    detail: str
    """Where it is, or what kind of task it is."""


class SearchReply(TypedDict):
    found: list[FoundThing]
    """Whole names and ids first, then names that begin so, then those that contain it."""
    more: bool
    """Whether there are others that are not among them."""


@router.get("/search")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def search(
    by: Caller,
    visible: Visible,
    api: TheApi,
    q: Sought = "",
    limit: Annotated[int, Query(ge=1, le=MOST_FOUND)] = DEFAULT_FOUND,
) -> Reply[SearchReply]:
    """Experiments, projects, workspaces, models, templates, tasks, users, pools and agents that the caller may see."""
    found: list[Named] = []
    if q:
        found += await api.reads.names.found(q, _sight(by, visible), limit + 1)
        found += _users(api, q)
        found += _fitting(
            NamedKind.POOL, ((p.name, p.name, p.type) for p in await shown_pools(api, by)), q
        )
        found += _agents(api, by, q)
    found.sort(key=lambda one: one.match)
    return reply(
        {
            "found": [
                {"kind": one.kind, "id": one.id, "name": one.name, "detail": one.detail}
                for one in found[:limit]
            ],
            "more": len(found) > limit,
        }
    )


def _sight(by: Principal, workspaces: Visibility) -> Sight:
    return Sight(
        workspaces=workspaces,
        projects=visibility(by, Action.VIEW_PROJECTS),
        experiments=visibility(by, Action.VIEW_EXPERIMENTS),
        artifacts=visibility(by, Action.VIEW_ARTIFACTS),
        models=visibility(by, Action.VIEW_MODELS),
        templates=visibility(by, Action.VIEW_TEMPLATES),
        interactive=visibility(by, Action.VIEW_INTERACTIVE),
    )


def _users(api: ApiContext, text: str) -> Iterator[Named]:
    """By user name or display name."""
    for user in api.services.auth.users():
        matches = [match_of(name, text) for name in (user.username, user.display_name)]
        if best := min((one for one in matches if one is not None), default=None):
            yield Named(best, NamedKind.USER, str(user.id), user.username, user.display_name)


def _agents(api: ApiContext, by: Principal, text: str) -> Iterator[Named]:
    """Only for those who are told which there are."""
    if allowed(by, Action.VIEW_AGENT_DETAILS):
        keys = api.services.cluster.agent_keys()
        yield from _fitting(NamedKind.AGENT, ((key.id, key.id, "") for key in keys), text)


def _fitting(kind: NamedKind, known: Iterator[tuple[str, str, str]], text: str) -> Iterator[Named]:
    """`known`: id, name and detail of each."""
    for id_, name, detail in known:
        match: Match | None = match_of(name, text)
        if match is not None:
            yield Named(match, kind, id_, name, detail)
