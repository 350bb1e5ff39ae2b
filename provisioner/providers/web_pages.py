"""What a proxy or a portal answers in place of a cloud: a page for browsers, which says little in a terminal. Pure."""

from __future__ import annotations

import re

_PAGE = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_QUOTES = " \t\r\n:b'\""


def without_page(text: str) -> str:
    """The text with the title of such a page instead of the page."""
    page = _PAGE.search(text)
    if page is None:
        return text
    title = _TITLE.search(text)
    words = title[1].replace("\\n", " ").split() if title else []
    named = f' ("{" ".join(words)}")' if words else ""
    before = text[: page.start()].rstrip(_QUOTES)
    said = f"a web page answered{named}, not the cloud: is a proxy in between (HTTPS_PROXY)?"
    return f"{before}: {said}" if before else said
