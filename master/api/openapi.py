"""What the API says of itself: FastAPI describes requests, and the replies that routes declare are added here.

FastAPI's own way would build a validator for each reply of each application, only to describe it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

from master.api.errors import ErrorReply
from master.api.replies import declared_reply
from windlass.base.formats.json_types import JsonObject

ERROR = "error"
_REF = "#/components/schemas/{model}"


def reads(model: type[BaseModel]) -> JsonObject:
    """`openapi_extra` of a route that reads its body by hand."""
    schema = model.model_json_schema(ref_template=_REF)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


class DescribedApp(FastAPI):
    """A FastAPI whose description has every reply."""

    @property
    def described(self) -> list[APIRoute]:
        routes = (route for route in self.routes if isinstance(route, APIRoute))
        return [route for route in routes if route.include_in_schema]

    def openapi(self) -> JsonObject:
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi(), self.described)
        return self.openapi_schema


def _completed(document: JsonObject, routes: Iterable[APIRoute]) -> JsonObject:
    components: JsonObject = document.setdefault("components", {}).setdefault("schemas", {})
    for framework in ("HTTPValidationError", "ValidationError"):
        components.pop(framework, None)
    shapes = {route.unique_id: declared_reply(route.endpoint) for route in routes}
    schemas = _schemas({ERROR: ErrorReply, **shapes}, components)
    for route in routes:
        for method in route.methods or ():
            operation = document["paths"][route.path_format][method.lower()]
            described = operation["responses"]["200"]  # of what is no JSON: FastAPI knows
            if route.unique_id in schemas:
                described = _response("Success", schemas[route.unique_id])
            failure = _response("Failure", schemas[ERROR])
            operation["responses"] = {"200": described, "default": failure}
            for media in operation.get("requestBody", {}).get("content", {}).values():
                media["schema"] = _named(components, media["schema"])
    return document


def _named(components: JsonObject, schema: JsonObject) -> JsonObject:
    """A reference to a schema that `reads` wrote out, and to what it refers to; others are references already."""
    if "$ref" in schema:
        return schema
    _define(components, schema.pop("$defs", {}))
    _define(components, {schema["title"]: schema})
    return {"$ref": _REF.format(model=schema["title"])}


def _schemas(shapes: Mapping[str, Any], components: JsonObject) -> dict[str, JsonObject]:
    """The schema of each shape that is declared; what they refer to becomes part of `components`."""
    adapters: list[tuple[str, Literal["serialization"], TypeAdapter[Any]]] = [
        (name, "serialization", TypeAdapter(shape))
        for name, shape in shapes.items()
        if shape is not None
    ]
    schemas, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REF)
    _define(components, definitions.get("$defs", {}))
    return {name: schema for (name, _), schema in schemas.items()}


def _define(components: JsonObject, definitions: JsonObject) -> None:
    """Raises ValueError if two shapes have the same name."""
    for name, schema in definitions.items():
        schema = {
            **schema,
            "title": name,
        }  # generators name by it, and all `Line[...]` have the same
        if _comparable(components.setdefault(name, schema)) != _comparable(schema):
            raise ValueError(f"two schemas are called {name}: rename one")


def _comparable(schema: Any) -> Any:
    """FastAPI makes floats of the bounds of some integers, which large ones do not survive, and drops nulls."""
    match schema:
        case dict():
            return {key: _comparable(one) for key, one in schema.items() if one is not None}
        case list():
            return [_comparable(one) for one in schema]
        case int() if not isinstance(schema, bool):
            return float(schema)
    return schema


def _response(description: str, schema: JsonObject) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
