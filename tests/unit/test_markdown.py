"""Markdown as a tree: formatted as people expect, and nothing in it can be more than text or a plain link."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.markdown import MAX_CHARACTERS, MarkdownNode, parse_markdown


def walk(nodes: list[MarkdownNode]) -> Iterator[MarkdownNode]:
    for node in nodes:
        yield node
        yield from walk(node["children"])


def text_of(nodes: list[MarkdownNode]) -> str:
    return "".join(node["text"] for node in walk(nodes))


def kinds(text: str) -> list[str]:
    return [node["kind"] for node in walk(parse_markdown(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title", ["heading", "text"]),
        (
            "**a** *b* ~~c~~",
            ["paragraph", "strong", "text", "text", "emphasis", "text", "text", "deleted", "text"],
        ),
        ("- a\n- b", ["list", "item", "text", "item", "text"]),
        ("2. a", ["ordered_list", "item", "text"]),
        ("> a", ["quote", "paragraph", "text"]),
        ("`a`", ["paragraph", "code"]),
        ("```py\na\n```", ["code_block"]),
        ("---", ["rule"]),
        ("a  \nb", ["paragraph", "text", "break", "text"]),
        ("|a|\n|-|\n|1|", ["table", "row", "head_cell", "text", "row", "cell", "text"]),
        ("[a](https://x.y)", ["paragraph", "link", "text"]),
    ],
)
def test_elements(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


def test_headings_and_lists_say_their_numbers() -> None:
    assert [node["level"] for node in parse_markdown("## a\n\n7. b")] == [2, 7]


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](data:text/html,x)",
        "[a](vbscript:x)",
        "[a](//evil.example)",
        "[a](/det/logout)",
        "[a][b]\n\n[b]: javascript:alert(1)",
        "<javascript:alert(1)>",
        "![a](https://evil.example/pixel.png)",
        '<a href="javascript:alert(1)">a</a>',
    ],
)
def test_other_links_are_text(text: str) -> None:
    nodes = parse_markdown(text)
    assert not any(node["kind"] == "link" for node in walk(nodes))
    assert "a" in text_of(nodes)


def test_html_is_shown_as_it_was_written() -> None:
    text = "<script>alert(1)</script>\n\nx <img src=y onerror=z> &lt;"
    assert text_of(parse_markdown(text)) == "<script>alert(1)</script>x <img src=y onerror=z> <"


def test_what_is_very_long_is_not_parsed() -> None:
    long = "*a*" * MAX_CHARACTERS
    assert parse_markdown(long) == [
        {"kind": "code_block", "text": long, "href": "", "level": 0, "children": []}
    ]


@given(st.text(alphabet="ab[]()<>*_`#>-|!:/\\&;\n \t1.~\u202e", max_size=200))
def test_any_text_is_a_tree_with_safe_links(text: str) -> None:
    for node in walk(parse_markdown(text)):
        if node["kind"] == "link":
            assert node["href"].lower().startswith(("http://", "https://", "mailto:"))
        else:
            assert node["href"] == ""
