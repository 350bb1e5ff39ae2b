"""The ASGI application: every route, behind the middlewares that make requests plain."""

from __future__ import annotations

from typing import cast

from fastapi import FastAPI

from master.api import errors
from master.api.middleware import API, BodyLimits, JsonBodies, PlainUrls
from master.api.routes import (
    agent_socket,
    agents,
    allocations,
    checkpoints,
    cluster,
    commands,
    experiment_actions,
    experiments,
    job_queue,
    logs,
    metrics,
    resource_pools,
    runs,
    session,
    tasks,
    trials,
    users,
    windlass,
    workspaces,
)
from master.api.services import Api, Services, make_api

OPENAPI_URL = f"{API}/openapi.json"
PUBLIC = frozenset(
    {"/info", f"{API}/master", f"{API}/auth/login", OPENAPI_URL, agent_socket.AGENTS}
)
"""The only paths that answer without a token of a user or a task. Agents show their own."""
_ROUTES = (
    session,
    cluster,
    experiments,
    experiment_actions,
    commands,
    # Before trials: /trials/metrics/... is not the trial called "metrics".
    metrics,
    trials,
    checkpoints,
    runs,
    allocations,
    logs,
    tasks,
    agents,
    agent_socket,
    resource_pools,
    job_queue,
    users,
    workspaces,
    windlass,
)


def build_app(services: Services) -> FastAPI:
    """`master.app` serves it, and calls `begin_shutdown` when the server is to stop."""
    app = FastAPI(
        title="Windlass",
        version=services.info.windlass_version,
        openapi_url=OPENAPI_URL,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.api = make_api(services)
    errors.install(app)
    for module in _ROUTES:
        app.include_router(module.router)
    app.add_middleware(JsonBodies)
    app.add_middleware(BodyLimits)
    app.add_middleware(PlainUrls)
    return app


def begin_shutdown(app: FastAPI) -> None:
    """Answer all long polls and end all followed logs: a server waits for them before it stops."""
    cast("Api", app.state.api).closing.set()
