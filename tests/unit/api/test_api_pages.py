"""The pages that the CLI leads to, as browsers ask for them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urljoin

import httpx2
import pytest

from master.allocations.machine import AllocationPhase
from master.api.application import ROUTES
from master.api.http.accept import prefers_html
from master.api.permits import permit_of
from master.webui.assets import ASSETS
from master.webui.pages import PageRoute
from tests.fakes.api_world import PASSWORD, ApiWorld

BASE = "http://master"
NOTEBOOKS = "/api/v1/notebooks"
OURS = {"Origin": BASE, "Content-Type": "application/x-www-form-urlencoded"}


async def ask(
    world: ApiWorld, method: str, path: str, *, token: str | None = None, **given: Any
) -> httpx2.Response:
    """As a browser does: with the cookie of a session, or none for an empty token."""
    token = world.token if token is None else token
    headers = {"Cookie": f"auth={token}"} if token else {}
    headers |= given.pop("headers", {})
    transport = httpx2.ASGITransport(app=world.app, client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
        return await client.request(method, path, headers=headers, **given)


async def log_in(world: ApiWorld, **fields: str) -> httpx2.Response:
    form = {"username": "determined", "password": PASSWORD, "redirect": "", **fields}
    return await ask(world, "POST", "/det/login", token="", data=form, headers=OURS)


async def notebook(world: ApiWorld, **config: Any) -> dict[str, Any]:
    return dict((await world.ok("POST", NOTEBOOKS, {"config": config}))["notebook"])


def interactive(task: dict[str, Any], description: str = "Jupyter/Lab (a b)") -> str:
    """As the published client makes it."""
    address = f"{task['serviceAddress']}"
    wait = f"/det/wait/jupyter-lab/{task['id']}?eventUrl={address}&serviceAddr={address}"
    return f"/det/interactive/{task['id']}/jupyter-lab/{quote(description)}/default/{quote(wait, safe='')}"


def led_to(answer: httpx2.Response) -> str:
    """Where a browser goes."""
    assert answer.status_code == 303, answer.text
    return urljoin(str(answer.request.url), answer.headers["location"])


async def test_the_form_logs_in_and_leads_back(world: ApiWorld) -> None:
    form = await ask(world, "GET", "/det/login?redirect=%2Fproxy%2Fa%3Ftoken%3Db", token="")
    assert form.status_code == 200
    assert 'name="redirect" value="/proxy/a?token=b"' in form.text
    answer = await log_in(world, redirect="/proxy/a?token=b")
    assert led_to(answer) == f"{BASE}/proxy/a?token=b"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    token = cookie.partition("auth=")[2].partition(";")[0]
    home = await ask(world, "GET", "/det/", token=token)
    assert home.status_code == 200
    assert "js/app.js" in home.text


@pytest.mark.parametrize("target", ["//evil", "https://evil/x", "/\\evil", "http://master@evil/"])
async def test_a_login_leads_to_nobody_else(world: ApiWorld, target: str) -> None:
    assert led_to(await log_in(world, redirect=target)) == f"{BASE}/det/"


async def test_a_refused_login_shows_the_form_again(world: ApiWorld) -> None:
    wrong = await log_in(world, password="<wrong>", redirect="/proxy/a")
    nobody = await log_in(world, username="nobody", password="<wrong>", redirect="/proxy/a")
    assert wrong.status_code == nobody.status_code == 401
    assert "Invalid credentials." in wrong.text
    assert wrong.text == nobody.text.replace("nobody", "determined"), "it tells who exists"
    assert "set-cookie" not in wrong.headers
    assert 'value="/proxy/a"' in wrong.text
    assert "&lt;wrong" not in wrong.text, "no page repeats a password"
    missing = await log_in(world, username="")
    assert missing.status_code == 400


async def test_a_one_time_code_logs_in_and_leads_on(world: ApiWorld) -> None:
    path = "/api/v1/windlass/login-codes"
    token = (await log_in(world)).headers["set-cookie"].partition("auth=")[2].partition(";")[0]
    code = (await world.ok("POST", path, {}, token=token))["code"]
    form = {"code": code, "redirect": "/det/queue"}
    answer = await ask(world, "POST", "/det/login", token="", data=form, headers=OURS)
    assert led_to(answer) == f"{BASE}/det/queue"
    again = await ask(world, "POST", "/det/login", token="", data=form, headers=OURS)
    assert again.status_code == 401
    assert "det web" in again.text
    assert code not in again.text
    by_others = {**OURS, "Origin": "http://evil"}
    code = (await world.ok("POST", path, {}, token=token))["code"]
    form = {"code": code}
    refused = await ask(world, "POST", "/det/login", token="", data=form, headers=by_others)
    assert refused.status_code == 403
    created = await world.ok("POST", "/api/v1/tokens", {"userId": 2})
    await world.refused(403, "POST", path, {}, token=created["token"])


async def test_who_is_inactive_is_told_after_the_password(world: ApiWorld) -> None:
    body = {"user": {"username": "gone", "active": False}, "password": PASSWORD}
    await world.ok("POST", "/api/v1/users", body)
    assert (await log_in(world, username="gone", password="other")).status_code == 401
    assert (await log_in(world, username="gone")).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil", "null", "https://master"])
async def test_pages_of_others_log_nobody_in(world: ApiWorld, origin: str) -> None:
    form = {"username": "determined", "password": PASSWORD}
    headers = {**OURS, "Origin": origin}
    answer = await ask(world, "POST", "/det/login", token="", data=form, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("body", [b"\xff=1", b"&".join([b"a=1"] * 100), b"", b"{}"])
async def test_what_is_no_form_is_refused(world: ApiWorld, body: bytes) -> None:
    answer = await ask(world, "POST", "/det/login", token="", content=body, headers=OURS)
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/html")


def pages() -> list[PageRoute]:
    return [route for route in ROUTES if isinstance(route, PageRoute)]


@pytest.mark.slow
@pytest.mark.parametrize("route", pages(), ids=lambda route: route.path)
async def test_every_page_is_for_who_is_logged_in_and_leads_there(
    world: ApiWorld, route: PageRoute
) -> None:
    if permit_of(route.endpoint).action is None:
        return
    path = re.sub(r"{[^}]*}", "x", route.path) + "?serviceAddr=/proxy/x/%3Ftoken=t"
    for token in ("", "f" * 64):
        answer = await ask(world, "GET", path, token=token)
        assert led_to(answer) == f"{BASE}/det/login?redirect={quote(path, safe='')}"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/det/login", "/det/", "/det/wait/jupyter-lab/x"])
async def test_every_page_has_the_headers_that_keep_it_safe(world: ApiWorld, path: str) -> None:
    answer = await ask(world, "GET", path)
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "strict-origin"
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son\w+=|https?://", answer.text)


async def test_the_files_of_a_page_are_kept_for_ever(world: ApiWorld) -> None:
    page = await ask(world, "GET", "/det/login", token="")
    links = re.findall(r'href="([^"]*\.css)"', page.text)
    assert links
    for link in links:
        found = await ask(world, "GET", urljoin("/det/login", link), token="")
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]
    for path in ("/det/assets/0/css/base.css", "/det/assets/0/css/..%2f..%2fpages.py"):
        assert (await ask(world, "GET", path, token="")).status_code == 404


async def test_links_lead_below_the_path_that_a_proxy_serves(world: ApiWorld) -> None:
    task = await notebook(world, description="a/b")
    path = interactive(task, "a/b")
    page = await ask(world, "GET", path)
    [script] = re.findall(r'src="([^"]*)"', page.text)
    shown = urljoin(f"https://site/windlass{path}", script)
    assert shown.startswith("https://site/windlass/det/assets/")


@pytest.mark.parametrize(
    ("path", "status", "module"),
    [
        ("/det/", 200, "js/pages/home.js"),
        ("/det/experiments?sort=SORT_BY_NAME", 200, "js/pages/experiments.js"),
        ("/det/projects/1/experiments", 200, "js/pages/experiments.js"),
        ("/det/experiments/7", 200, "js/pages/experiment.js"),
        ("/det/experiments/7/trials/8/logs", 200, "js/pages/trial.js"),
        ("/det/experiments/", 200, "js/pages/experiments.js"),
        ("/det/nothing/at/all", 404, "js/app.js"),
        ("/det/%3Cscript%3E", 404, "js/app.js"),
    ],
)
async def test_one_page_is_behind_all_addresses_and_names_the_modules_of_each(
    world: ApiWorld, path: str, status: int, module: str
) -> None:
    answer = await ask(world, "GET", path)
    assert answer.status_code == status
    assert "%3Cscript" not in answer.text
    preloaded = re.findall(r'<link rel="modulepreload" href="([^"]*)"', answer.text)
    names = [link.split("/assets/")[1].partition("/")[2] for link in preloaded]
    assert len(names) == len(set(names))
    assert {module, "js/router.js", "vendor/preact.js"} <= set(names)
    found = await ask(world, "GET", urljoin(path, preloaded[-1]), token="")
    assert found.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip, br", "gzip"), ("GZIP;q=0.5", "gzip"), ("br", None), ("gzip;q=0", None), ("", None)],
)
async def test_files_are_compressed_for_who_reads_that(
    world: ApiWorld, accepted: str, coding: str | None
) -> None:
    address = f"/det/assets/{ASSETS.current().version}/vendor/preact.js"
    answer = await ask(world, "GET", address, token="", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding") == coding
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.content == ASSETS.current().files["vendor/preact.js"].content


async def test_the_masters_address_leads_home(world: ApiWorld) -> None:
    for path in ("/", "/det"):
        assert led_to(await ask(world, "GET", path, token="")) == f"{BASE}/det/"


async def test_who_waits_for_a_notebook_reads_why(world: ApiWorld) -> None:
    task = await notebook(world, description="<b>mine</b>")
    page = await ask(world, "GET", interactive(task))
    assert page.status_code == 200
    reason = (await world.ok("GET", f"{NOTEBOOKS}/{task['id']}"))["notebook"]["waitingReason"]
    assert reason
    assert f"It waits: {reason}." in page.text.replace("&#39;", "'").replace("&#34;", '"')
    assert "&lt;b&gt;mine&lt;/b&gt;" in page.text
    assert '<noscript><meta http-equiv="refresh"' in page.text
    state_url = re.findall(r'data-state="([^"]*)"', page.text)[0]
    state = await ask(world, "GET", urljoin(interactive(task), state_url))
    assert state.json() == {
        "state": "queued",
        "symbol": "○",
        "sentence": f"It waits: {reason}.",
        "lines": [],
        "next": "",
        "over": False,
        "closed": False,
        "end": "",
    }


async def test_what_is_ready_is_led_to(world: ApiWorld) -> None:
    await world.add_agent(ends_at=datetime(2030, 1, 1, 18, tzinfo=UTC))
    task = await notebook(world)
    live = world.services.tasks.live(task["id"])
    assert live is not None
    state = await live.wait_until(
        lambda s: s.allocation is not None and s.allocation.phase is AllocationPhase.RUNNING
    )
    assert state.allocation is not None
    waits = await ask(world, "GET", interactive(task))
    assert "It runs, but its service does not answer yet." in waits.text
    assert "This task ends at 2030-01-01 18:00 UTC, with the time of its node." in waits.text
    ready = f"/api/v1/allocations/{state.allocation.id}/ready"
    await world.ok("POST", ready, token=world.mint.token(state.allocation.id))
    evil = "eventUrl=x&serviceAddr=https://evil/"
    for path in (interactive(task), f"/det/wait/jupyter-lab/{task['id']}?{evil}"):
        assert led_to(await ask(world, "GET", path)) == f"{BASE}{task['serviceAddress']}"
    await world.ok(
        "POST", "/api/v1/users", {"user": {"username": "ann", "active": True}, "password": PASSWORD}
    )
    ann = (await world.ok("POST", "/api/v1/auth/login", {"username": "ann", "password": PASSWORD}))[
        "token"
    ]
    theirs = await ask(world, "GET", interactive(task), token=ann)
    assert theirs.status_code == 200, "no way to a page that asks for a password"
    assert "It is one of admin, who alone, beside administrators, may open it." in theirs.text
    assert "det notebook kill" not in theirs.text


async def test_what_has_ended_says_how(world: ApiWorld) -> None:
    task = await notebook(world)
    await world.ok("POST", f"{NOTEBOOKS}/{task['id']}/kill")
    page = await ask(world, "GET", interactive(task))
    status = (await world.ok("GET", f"{NOTEBOOKS}/{task['id']}"))["notebook"]["exitStatus"]
    assert f"It has ended: {status}." in page.text
    assert "wait.js" not in page.text
    assert "refresh" not in page.text


async def test_what_is_not_there_is_a_page_too(world: ApiWorld) -> None:
    command = (await world.ok("POST", "/api/v1/commands", {"config": {"entrypoint": ["x"]}}))[
        "command"
    ]
    for path in (
        "/det/wait/jupyter-lab/nothing",
        f"/det/wait/jupyter-lab/{command['id']}",
        f"/det/wait/experiment/{command['id']}",
        "/det/interactive/nothing/jupyter-lab/x/default/y",
    ):
        page = await ask(world, "GET", path)
        assert page.status_code == 404
        assert "This page cannot be shown" in page.text
    assert (await ask(world, "GET", "/det/wait/jupyter-lab/a%00b")).status_code == 400
    unknown = await ask(world, "GET", f"/det/wait/foo/{command['id']}")
    assert "`jupyter-lab` or `tensorboard`" in unknown.text


FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/docs/none.html", 404, "none.html"),
        ("/proxy/0a1b2c3d/lab", 404, "Its task is over"),
    ],
)
async def test_errors_are_pages_for_browsers_and_json_for_programs(
    world: ApiWorld, path: str, status: int, said: str
) -> None:
    shown = await ask(world, "GET", path, headers={"Accept": FIREFOX})
    assert shown.status_code == status
    assert shown.headers["content-type"].startswith("text/html")
    assert "This page cannot be shown" in shown.text
    assert said in shown.text
    home = re.findall(r'href="([^"]*det/)"', shown.text)[0]
    assert urljoin(f"{BASE}{path}", home) == f"{BASE}/det/"
    for accept in ("*/*", "application/json", "application/json, text/html;q=0.5", ""):
        told = await ask(world, "GET", path, headers={"Accept": accept})
        assert (told.status_code, told.json()["message"]) == (status, told.json()["error"]["error"])


async def test_the_published_api_answers_browsers_in_json(world: ApiWorld) -> None:
    for path in ("/api/v1/nothing", "/api/v1/experiments/77"):
        told = await ask(world, "GET", path, headers={"Accept": FIREFOX})
        assert told.json()["message"]
    posted = await ask(world, "POST", "/det/tasks", headers={**OURS, "Accept": FIREFOX})
    assert posted.json()["message"]


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (FIREFOX, True),
        ("TEXT/HTML", True),
        ("text/html;q=0.2, */*", True),
        ("text/html;q=0.9, application/json", False),
        ("text/html, application/json", False),
        ("text/html;q=x", False),
        ("text/html;q=0", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_html_is_preferred_by_name(accept: str, html: bool) -> None:
    assert prefers_html(accept) is html
