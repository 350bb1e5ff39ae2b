"""Chromium, and what its pages complained of."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, sync_playwright

CHROMIUM = shutil.which("chromium")


@dataclass
class Browser:
    """One person's: it keeps cookies."""

    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and violations of policies on the master's own pages, and requests to other hosts from any."""

    def note_message(self, message: ConsoleMessage) -> None:
        page = message.page
        if page is not None and urlsplit(page.url).path.startswith("/det/"):
            self.complaints.append(f"{page.url}: {message.type}: {message.text}")

    def note_request(self, request: Request) -> None:
        host = urlsplit(request.url).hostname
        if urlsplit(request.url).scheme in ("http", "https", "ws", "wss") and host != "127.0.0.1":
            self.complaints.append(f"{self.page.url} asked {request.url}")


@contextmanager
def browser(*, scripts: bool = True) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = chromium.new_context(
            java_script_enabled=scripts, viewport={"width": 390, "height": 800}
        )
        found = Browser(context, context.new_page())
        context.on("console", found.note_message)
        context.on("weberror", lambda error: found.complaints.append(str(error.error)))
        context.on("request", found.note_request)
        yield found
        chromium.close()
