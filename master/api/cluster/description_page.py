"""An OpenAPI document as one page of HTML: operations by tag, with their parameters, bodies and replies. No scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

Schema = Mapping[str, Any]
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
h2 { margin-top: 2em; text-transform: capitalize }
summary { cursor: pointer; padding: .3em 0 } summary b { display: inline-block; width: 4.5em }
code, pre { font: 13px/1.5 ui-monospace, monospace } pre { background: #f4f4f4; padding: .7em; overflow-x: auto }
details > div { margin: 0 0 1em 4.5em } table { border-collapse: collapse }
td { padding: .1em 1.5em .1em 0; vertical-align: top }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } pre { background: #242424 } }
"""


def page(document: Schema) -> str:
    """The whole page."""
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    sections = "".join(
        f"<h2 id='{escape(tag)}'>{escape(tag)}</h2>{''.join(operations)}"
        for tag, operations in _by_tag(document).items()
    )
    components = document.get("components", {}).get("schemas", {})
    schemas = "".join(_component(name, schema) for name, schema in sorted(components.items()))
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title>"
        f"<style>{_STYLE}</style><h1>{title}</h1>"
        "<p>For programs: <a href='openapi.json'>openapi.json</a>. Calls need a token: "
        "<code>Authorization: Bearer TOKEN</code>, from <code>POST /api/v1/auth/login</code>.</p>"
        f"{sections}<h2>Schemas</h2>{schemas}</html>"
    )


def _by_tag(document: Schema) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = next(iter(operation.get("tags", ())), "other")
            found.setdefault(tag, []).append(_operation(method, path, operation))
    return found


def _operation(method: str, path: str, operation: Schema) -> str:
    parts = [f"<p>{escape(operation.get('description', ''))}</p>"]
    parts += _parameters(operation.get("parameters", ()))
    for schema in _schemas_of(operation.get("requestBody", {})):
        parts.append(f"<p>Body:</p><pre>{_shape(schema)}</pre>")
    for status, response in operation.get("responses", {}).items():
        for schema in _schemas_of(response):
            parts.append(f"<p>{escape(str(status))}:</p><pre>{_shape(schema)}</pre>")
    head = f"<summary><b>{escape(method.upper())}</b><code>{escape(path)}</code></summary>"
    return f"<details>{head}<div>{''.join(parts)}</div></details>"


def _parameters(parameters: Sequence[Schema]) -> Iterator[str]:
    if parameters:
        rows = "".join(
            f"<tr><td><code>{escape(one['name'])}</code><td>{escape(one['in'])}"
            f"<td>{_shape(one.get('schema', {}))}<td>{'required' if one.get('required') else ''}"
            for one in parameters
        )
        yield f"<table>{rows}</table>"


def _schemas_of(content: Schema) -> Iterator[Schema]:
    for media in content.get("content", {}).values():
        if "schema" in media:
            yield media["schema"]


def _component(name: str, schema: Schema) -> str:
    about = escape(schema.get("description", ""))
    body = f"<p>{about}</p><pre>{_shape(schema)}</pre>"
    head = f"<summary><code>{escape(name)}</code></summary>"
    return f"<details id='{escape(name)}'>{head}<div>{body}</div></details>"


def _shape(schema: Schema, indent: str = "") -> str:
    """A schema in a few words, as HTML; other schemas as links."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#{name}'>{name}</a>"
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return escape(" | ".join(repr(value) for value in values))
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " | ".join(_shape(one, indent) for one in schema[several])
    if "properties" in schema:
        inner = indent + "  "
        fields = "".join(
            f"{inner}{escape(name)}: {_shape(field, inner)}\n"
            for name, field in schema["properties"].items()
        )
        return f"{{\n{fields}{indent}}}"
    if "items" in schema:
        return f"[{_shape(schema['items'], indent)}]"
    return escape(str(schema.get("type", "anything")))
