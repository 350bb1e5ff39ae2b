"""Sessions of users: hashing, the cache of tokens, and who one is."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import pytest
from client_scripted_master import Answer, Asked, ScriptedMaster

from windlass.base.errors import InvalidArgument, NotFound, Unauthenticated
from windlass.sdk.client import Client
from windlass.sdk.credentials import TokenCache, connect, master_url
from windlass.sdk.session import Session
from windlass.sdk.wire import (
    MasterError,
    canonical_url,
    error_from_response,
    hash_password,
    to_wire,
)


@pytest.fixture
def passwords(master: ScriptedMaster) -> dict[str, str]:
    """User -> password. A login gives the token `token-USER`; `/me` knows the tokens in `sessions`."""
    known = {"determined": "", "alice": "wonder"}

    def login(asked: Asked) -> Answer:
        name = asked.body["username"]
        if known.get(name) is None or asked.body["password"] != hash_password(known[name]):
            return 401, {"error": {"code": 16, "error": "invalid credentials"}}
        return 200, {"token": f"token-{name}", "user": {"username": name}}

    def me(asked: Asked) -> Answer:
        name = asked.headers.get("authorization", "").removeprefix("Bearer token-")
        return (200, {"user": {"username": name}}) if name in known else (401, {})

    master.on("POST", "/api/v1/auth/login", login)
    master.on("GET", "/api/v1/me", me)
    return known


def test_passwords_are_hashed_before_they_travel() -> None:
    assert hash_password("") == ""
    salted = b"GubPEmmotfiK9TMD6Zdw" + b"pw"
    assert hash_password("pw") == hashlib.sha512(salted).hexdigest()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("host", "http://host:8080"),
        ("host:99", "http://host:99"),
        ("http://host", "http://host:80"),
        ("https://host/prefix/", "https://host:443/prefix"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_urls_are_canonical(given: str, url: str) -> None:
    assert canonical_url(given) == url
    assert canonical_url(url) == url


@pytest.mark.parametrize(
    "given", ["", "ftp://x", "http://", "host:port", "http://u@h", "http://h?x", "http://[bad"]
)
def test_what_is_no_url_is_refused(given: str) -> None:
    with pytest.raises(InvalidArgument, match="not a master URL"):
        canonical_url(given)


def test_the_master_comes_from_the_nearest_place() -> None:
    environ = {"DET_MASTER": "two", "DET_MASTER_ADDR": "three"}
    assert master_url("one", environ) == "http://one:8080"
    assert master_url(None, environ) == "http://two:8080"
    assert master_url(None, {"DET_MASTER_ADDR": "three"}) == "http://three:8080"
    assert master_url(None, {}) == "http://localhost:8080"


def test_nobody_is_logged_in_with_an_empty_password(
    master: ScriptedMaster, passwords: dict[str, str]
) -> None:
    with pytest.raises(Unauthenticated, match=r"Not logged in as determined.*user login"):
        connect(master.url, environ={})
    assert master.calls("POST", "/api/v1/auth/login") == []


def test_a_login_is_remembered(
    master: ScriptedMaster, passwords: dict[str, str], home: Path
) -> None:
    with connect(master.url, environ={}, ask_password=lambda _: "") as session:
        assert Client(session).me()["username"] == "determined"
    path = home / ".config" / "windlass" / "auth.json"
    assert path.stat().st_mode & 0o777 == 0o600
    with connect(master.url, environ={}) as session:
        assert session.token == "token-determined"
    assert len(master.calls("POST", "/api/v1/auth/login")) == 1


def test_an_expired_token_leads_to_a_question_or_to_the_command(
    master: ScriptedMaster, passwords: dict[str, str]
) -> None:
    cache = TokenCache()
    cache.remember(master.url, "alice", "token-old")
    with pytest.raises(Unauthenticated, match=r"expired.*user login alice"):
        connect(master.url, environ={})
    cache.remember(master.url, "alice", "token-old")
    with connect(master.url, environ={}, ask_password=lambda _: "wonder") as session:
        assert session.token == "token-alice"
    assert cache.token(master.url, "alice") == "token-alice"
    with pytest.raises(Unauthenticated, match="Wrong user name or password for bob"):
        connect(master.url, "bob", environ={}, ask_password=lambda _: "guess")


def test_who_is_named_for_one_call_is_not_who_the_user_is_afterwards(
    master: ScriptedMaster, passwords: dict[str, str]
) -> None:
    cache = TokenCache()
    cache.remember(master.url, "alice", "token-alice")
    passwords["admin"] = ""
    with connect(master.url, "admin", environ={}, ask_password=lambda _: "") as session:
        assert session.token == "token-admin"
    with connect(master.url, environ={}) as session:
        assert session.token == "token-alice"
    with connect(master.url, "admin", environ={}):
        assert len(master.calls("POST", "/api/v1/auth/login")) == 1, "its token is remembered"


def test_an_expired_login_makes_nobody_somebody_else(
    master: ScriptedMaster, passwords: dict[str, str]
) -> None:
    TokenCache().remember(master.url, "alice", "token-old")
    with pytest.raises(Unauthenticated, match=r"expired.*user login alice"):
        connect(master.url, environ={})
    with pytest.raises(Unauthenticated, match=r"Not logged in.*user login alice"):
        connect(master.url, environ={})


def test_the_environment_logs_in(master: ScriptedMaster, passwords: dict[str, str]) -> None:
    environ = {"DET_USER": "alice", "DET_PASS": "wonder", "DET_USER_TOKEN": "token-alice"}
    with connect(master.url, environ=environ) as session:
        assert session.token == "token-alice"
    assert len(master.calls("POST", "/api/v1/auth/login")) == 1
    inside = {"DET_USER": "alice", "DET_USER_TOKEN": "task-token"}
    with connect(master.url, environ=inside) as session:
        assert session.token == "task-token"


def test_a_damaged_cache_counts_as_empty(home: Path) -> None:
    cache = TokenCache()
    cache.path.parent.mkdir(parents=True)
    cache.path.write_text("{")
    assert cache.active_user("http://h:1") is None
    cache.remember("http://h:1", "u", "t")
    cache.forget("http://h:1", "u")
    assert (cache.token("http://h:1", "u"), cache.active_user("http://h:1")) == (None, None)


def test_pages_are_walked_to_the_end(master: ScriptedMaster) -> None:
    def page(asked: Asked) -> Answer:
        offset = int(asked.query["offset"][0])
        end = min(offset + 200, 450)
        pagination = {"endIndex": end, "total": 450}
        return 200, {"trials": [{"id": i} for i in range(offset, end)], "pagination": pagination}

    master.on("GET", "/api/v1/experiments/1/trials", page)
    with Session(master.url, "t") as session:
        assert [t["id"] for t in Client(session).trials(1)] == list(range(450))


def test_a_stream_yields_results_and_raises_its_error(master: ScriptedMaster) -> None:
    lines = b'{"result": {"id": "1"}}\n{"error": {"httpCode": 404, "message": "trial gone"}}\n'
    master.on("GET", "/api/v1/trials/1/logs", lambda _: (200, lines))
    with Session(master.url, "t") as session:
        entries = Client(session).logs(1)
        assert next(entries) == {"id": "1"}
        with pytest.raises(NotFound, match="trial gone"):
            next(entries)


def test_cookies_are_not_kept(master: ScriptedMaster) -> None:
    master.cookie = "auth=t; Path=/"
    with Session(master.url) as session:
        session.get("/info")
        session.get("/info")
    assert "cookie" not in master.calls("GET", "/info")[-1].headers


def test_what_is_not_a_master_is_recognised(master: ScriptedMaster) -> None:
    master.on("GET", "/info", lambda _: (200, b"<html>"))
    with Session(master.url) as session, pytest.raises(MasterError, match="may not be a master"):
        Client(session).info()


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"code": 3, "reason": "InvalidArgument", "error": "no such key"}}',
        b'{"message": "no such key"}',
        b'{"error": "no such key"}',
        b"no such key",
    ],
)
def test_every_shape_of_error_is_read(body: bytes) -> None:
    assert str(error_from_response(400, body, request="GET /x")) == "no such key"


def test_numbers_that_json_lacks_travel_as_strings() -> None:
    value = {"a": math.nan, "b": [math.inf, -math.inf, 1.5], "c": (1, True, None)}
    assert to_wire(value) == {
        "a": "NaN",
        "b": ["Infinity", "-Infinity", 1.5],
        "c": [1, True, None],
    }
    with pytest.raises(TypeError, match="object"):
        to_wire({"x": object()})
