"""A master's API on a port of 127.0.0.1, in this process, and Chromium on its pages."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request, async_playwright
from starlette.types import ASGIApp

from master.core.scheduler.types import SchedulerSettings
from tests.fakes.api_world import PASSWORD, ApiWorld, api_world

CHROMIUM = shutil.which("chromium")
DESKTOP, PHONE = (1280, 800), (390, 800)


@dataclass(slots=True)
class ServedWorld:
    world: ApiWorld
    base: str
    """Its address, with a slash at the end."""


@dataclass
class Visit:
    """One person's browser: what its pages complained of, and what they asked of others."""

    context: BrowserContext
    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    async def open(self, path: str) -> Page:
        await self.page.goto(f"{self.base}det/{path}")
        return self.page

    def note_message(self, message: ConsoleMessage) -> None:
        self.complaints.append(f"{message.type}: {message.text}")

    def note_request(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:")):
            self.complaints.append(f"{urlsplit(self.page.url).path} asked {request.url}")


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_config=None, lifespan="off", ws="websockets-sansio")
        server = uvicorn.Server(config)
        server.capture_signals = nullcontext  # type: ignore[method-assign]
        running = asyncio.create_task(server.serve([listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await running


@asynccontextmanager
async def served_world(
    folder: Path, scheduler: SchedulerSettings | None = None
) -> AsyncIterator[ServedWorld]:
    async with api_world(folder, scheduler=scheduler) as world, serving(world.app) as port:
        yield ServedWorld(world, f"http://127.0.0.1:{port}/")


@asynccontextmanager
async def visit(base: str, *, size: tuple[int, int] = DESKTOP) -> AsyncIterator[Visit]:
    """Logged in as admin."""
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        width, height = size
        context = await chromium.new_context(viewport={"width": width, "height": height})
        found = Visit(context, await context.new_page(), base)
        context.on("console", found.note_message)
        context.on("weberror", lambda error: found.complaints.append(str(error.error)))
        context.on("request", found.note_request)
        page = await found.open("login")
        await page.get_by_label("User").fill("admin")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url("**/det/")
        yield found
        await chromium.close()
