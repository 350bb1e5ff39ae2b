"""Links between the documents of the repository lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def links_of(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", page.read_text()))
    return [link for link in found if not link.startswith(("http:", "https:"))]


def anchors_of(page: Path) -> set[str]:
    """As forges make them of headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-") for text in headings}


def is_dead(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return not target.exists() or (bool(anchor) and anchor not in anchors_of(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    assert [link for link in links_of(page) if is_dead(page, link)] == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `title`, here\n[a](#a-title-here) [b](#b) [c](c.md) [d](page.md)\n")
    assert [link for link in links_of(page) if is_dead(page, link)] == ["#b", "c.md"]
