"""The kinds of routes. Each stands behind the guard of the permit that it declares.

`ApiRoute` is FastAPI's, with a body that is read strictly. `HotRoute` is for the calls that tasks make all the time:
declared and described in the same way, but with its arguments bound by a few lines here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, cast, get_args, get_type_hints
from urllib.parse import parse_qsl

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Path
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from master.api.access import Caller, Visible
from master.api.http.json_text import loads
from master.api.permits import Guard, permit_of
from master.api.request_models import Body, Query
from master.api.services import TheApi
from master.parsing import in_parsing_thread

THREAD_BYTES = 256 * 1024
"""Parsing less than this takes under a millisecond or two."""


class ApiRequest(Request):
    """Reads JSON strictly (no NaN words, no halves of surrogate pairs) and not on the event loop if it is long."""

    async def json(self) -> Any:
        return await parse(await self.body())


async def parse(body: bytes) -> Any:
    if len(body) > THREAD_BYTES:
        return await in_parsing_thread(loads, body)
    return orjson.loads(body)


class ApiRoute(APIRoute):
    """FastAPI's route. Nothing of a request is read before its caller is known and permitted."""

    request_class: type[ApiRequest] = ApiRequest

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        declared = permit_of(endpoint)
        tag = str(options["tags"][0]).replace(" ", "_")
        name = options.get("name") or endpoint.__name__
        options["operation_id"] = options.get("operation_id") or f"{tag}_{name}"
        # What a route answers is encoded already; `master.api.openapi` describes it.
        super().__init__(path, endpoint, **{**options, "response_model": None})
        self.permit = declared
        self.app = Guard(declared, self.app)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_plain(request: Request) -> Response:
            return await handle(self.request_class(request.scope, request.receive))

        return handle_plain


class HotRoute(ApiRoute):
    """Takes parameters of the path, one `Body`, one `Query`, `Caller`, `Visible`, `TheApi` and `Request`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = Guard(self.permit, _Direct(endpoint))


Bind = Callable[[Request], Awaitable[Any]]


class _Direct:
    """ASGI: binds the arguments of a route by their annotations, and runs it."""

    def __init__(self, endpoint: Callable[..., Awaitable[Response]]) -> None:
        hints = get_type_hints(endpoint, include_extras=True)
        hints.pop("return", None)
        self._endpoint = endpoint
        self._binds = [(name, _bind(name, hint)) for name, hint in hints.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        arguments = {name: await bind(request) for name, bind in self._binds}
        response = await self._endpoint(**arguments)
        await response(scope, receive, send)


def _bind(name: str, hint: Any) -> Bind:
    """Raises TypeError for what a hot route cannot take."""
    if hint == Caller:
        return _from_scope("principal")
    if hint == Visible:
        return _from_scope("visibility")
    if hint == TheApi:
        return _api
    if hint is Request:
        return _request
    model = get_args(hint)[0] if get_args(hint) else hint
    if isinstance(model, type) and issubclass(model, Body):
        return _body(model)
    if isinstance(model, type) and issubclass(model, Query):
        return _query(model)
    if hint is str or any(isinstance(extra, Path) for extra in get_args(hint)[1:]):
        return _path(name, TypeAdapter(hint))
    raise TypeError(f"{name}: a hot route cannot take {hint}")


def _from_scope(key: str) -> Bind:
    async def bind(request: Request) -> Any:
        return request.scope[key]

    return bind


async def _api(request: Request) -> Any:
    return request.scope["app"].state.api


async def _request(request: Request) -> Request:
    return request


def _path(name: str, type_: TypeAdapter[Any]) -> Bind:
    async def bind(request: Request) -> Any:
        try:
            return type_.validate_python(request.scope["path_params"][name])
        except ValidationError as error:
            raise _invalid(error, name) from None

    return bind


def _query(model: type[BaseModel]) -> Bind:
    async def bind(request: Request) -> BaseModel:
        given = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        return _validated(model, dict(given))

    return bind


def _body(model: type[BaseModel]) -> Bind:
    async def bind(request: Request) -> BaseModel:
        body = await _whole(request.receive)
        try:
            content = await parse(body) if len(body) > THREAD_BYTES else orjson.loads(body)
        except ValueError:
            raise RequestValidationError([{"type": "json_invalid", "loc": ("body",)}]) from None
        return _validated(model, content)

    return bind


async def _whole(receive: Receive) -> bytes:
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return cast("bytes", message.get("body", b""))
    parts: list[bytes] = []
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    raise ClientDisconnect


def _validated(model: type[BaseModel], content: Any) -> BaseModel:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError, *location: str) -> RequestValidationError:
    found: list[Mapping[str, Any]] = [
        {**one, "loc": (*location, *one["loc"])}
        for one in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return RequestValidationError(found)
