"""Markdown as a tree of elements that pages draw without any HTML.

The tree holds text, and links that lead to http, https and mailto addresses: whatever else a text contains (HTML,
other links, pictures) is shown as text. Parsing takes time: for a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from typing_extensions import TypedDict

MAX_CHARACTERS = 100_000
"""A longer text is shown as it is: it is not written for people."""

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_SCHEMES = ("http://", "https://", "mailto:")

Kind = Literal[
    "text",
    "break",
    "code",
    "strong",
    "emphasis",
    "deleted",
    "link",
    "paragraph",
    "heading",
    "quote",
    "code_block",
    "rule",
    "list",
    "ordered_list",
    "item",
    "table",
    "row",
    "head_cell",
    "cell",
]


class MarkdownNode(TypedDict):
    kind: Kind
    text: str
    """Of text, code and code blocks."""
    href: str
    """Of links."""
    level: int
    """Of headings: 1 to 6; of ordered lists: the first number."""
    children: list[MarkdownNode]


_KINDS: dict[str, Kind] = {
    "paragraph": "paragraph",
    "heading": "heading",
    "blockquote": "quote",
    "bullet_list": "list",
    "ordered_list": "ordered_list",
    "list_item": "item",
    "table": "table",
    "tr": "row",
    "th": "head_cell",
    "td": "cell",
    "strong": "strong",
    "em": "emphasis",
    "s": "deleted",
    "link": "link",
}
"""By what a token's type begins with. Others only hold what is inside of them."""


def parse_markdown(text: str) -> list[MarkdownNode]:
    if len(text) > MAX_CHARACTERS:
        return [_node("code_block", text=text)]
    return _tree(iter(_PARSER.parse(text)))


def _tree(tokens: Iterator[Token]) -> list[MarkdownNode]:
    """Up to the end of the element that the tokens are in."""
    nodes: list[MarkdownNode] = []
    for token in tokens:
        if token.nesting == -1:
            break
        if token.nesting == 1:
            nodes += _element(token, _tree(tokens))
        elif token.type == "inline":
            nodes += _tree(iter(token.children or ()))
        else:
            nodes.append(_leaf(token))
    return [node for node in nodes if node["text"] or node["kind"] != "text"]


def _element(token: Token, children: list[MarkdownNode]) -> Sequence[MarkdownNode]:
    kind = _KINDS.get(token.type.removesuffix("_open"))
    if kind is None or (kind == "paragraph" and token.hidden):
        return children
    if kind == "link":
        href = str(token.attrGet("href") or "")
        is_safe = href.lower().startswith(_SCHEMES)
        return [_node("link", href=href, children=children)] if is_safe else children
    level = 0
    if kind == "heading":
        level = int(token.tag[1:])
    elif kind == "ordered_list":
        level = int(token.attrGet("start") or 1)
    return [_node(kind, level=level, children=children)]


def _leaf(token: Token) -> MarkdownNode:
    if token.type == "code_inline":
        return _node("code", text=token.content)
    if token.type in ("fence", "code_block"):
        return _node("code_block", text=token.content)
    if token.type == "hr":
        return _node("rule")
    if token.type == "hardbreak":
        return _node("break")
    if token.type == "softbreak":
        return _node("text", text="\n")
    # Of a picture: what stands for it where it is not shown.
    return _node("text", text=token.content)


def _node(
    kind: Kind,
    *,
    text: str = "",
    href: str = "",
    level: int = 0,
    children: list[MarkdownNode] | None = None,
) -> MarkdownNode:
    return {"kind": kind, "text": text, "href": href, "level": level, "children": children or []}
