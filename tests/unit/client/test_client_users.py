"""Verbs of users, sessions and access tokens: what they send, print and refuse."""

from __future__ import annotations

import json

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app
from windlass.sdk.credentials import TokenCache

TOKEN = {
    "id": 3,
    "userId": 5,
    "username": "ann",
    "createdAt": "2026-01-02T03:04:05Z",
    "expiry": "2999-02-02T03:04:05Z",
    "description": "ci",
    "revoked": False,
}
PAGE = {"endIndex": 1, "total": 1}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "ann", "id": 5}})
    for name, number in (("ann", 5), ("bob", 6)):
        user = {"id": number, "username": name}
        master.on("GET", f"/api/v1/users/{name}/by-username", {"user": user})
        master.on("PATCH", f"/api/v1/users/{number}", {"user": {**user, "username": "new"}})
    return master


def det(master: ScriptedMaster, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments], input=stdin)


def said(master: ScriptedMaster, *arguments: str, stdin: str | None = None) -> str:
    """On stderr, by a command that succeeds."""
    result = det(master, *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stderr


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    return result.stderr


def test_only_active_users_are_listed_unless_all_are_asked_for(cluster: ScriptedMaster) -> None:
    cluster.on("GET", "/api/v1/users", {"users": [], "pagination": {"endIndex": 0, "total": 0}})
    said(cluster, "user", "list")
    said(cluster, "user", "list", "--all")
    active, everybody = cluster.calls("GET", "/api/v1/users")
    assert active.query["active"] == ["true"]
    assert "active" not in everybody.query


def test_a_user_is_edited_at_once(cluster: ScriptedMaster) -> None:
    words = ("--display-name", "", "--username", "bo", "--active", "true", "--admin", "false")
    assert said(cluster, "user", "edit", "bob", *words) == "Changed user bob\n"
    assert said(cluster, "user", "rename", "bob", "New") == "Renamed user bob to new\n"
    edit, rename = cluster.calls("PATCH", "/api/v1/users/6")
    assert edit.body == {"displayName": "", "username": "bo", "active": True, "admin": False}
    assert rename.body == {"username": "New"}
    assert "Nothing to change" in refused(det(cluster, "user", "edit", "bob"))
    assert det(cluster, "user", "edit", "bob", "--admin", "maybe").exit_code == 2


def test_users_are_deactivated_with_a_word_for_each(cluster: ScriptedMaster) -> None:
    results = [{"id": 5, "error": "is the last"}, {"id": 6, "error": ""}]
    cluster.on("PATCH", "/api/v1/users", {"results": results})
    result = det(cluster, "user", "deactivate", "ann", "bob")
    assert refused(result) == "Deactivated user bob\nerror: ann: is the last\n"
    (asked,) = cluster.calls("PATCH", "/api/v1/users")
    assert asked.body == {"activate": False, "userIds": [5, 6]}


def test_sessions_are_listed_and_ended(cluster: ScriptedMaster) -> None:
    session = {"id": 8, "createdAt": "2026-01-02T03:04:05Z", "address": "10.0.0.1"}
    path = "/api/v1/windlass/users/6/sessions"
    cluster.on("GET", path, {"sessions": [session], "pagination": PAGE})
    result = det(cluster, "user", "session", "list", "bob", "--columns", "id,from", "--csv")
    assert result.stdout == "ID,From\n8,10.0.0.1\n"
    cluster.on("DELETE", "/api/v1/windlass/sessions/8", {})
    cluster.on("DELETE", path, {"ended": 2})
    assert said(cluster, "user", "session", "revoke", "8") == "Ended session 8\n"
    assert said(cluster, "user", "session", "revoke", "--all-of", "bob") == (
        "Ended 2 sessions of bob\n"
    )
    for words in ((), ("8", "--all-of", "bob")):
        assert "Give ids" in refused(det(cluster, "user", "session", "revoke", *words))


def test_an_access_token_is_shown_once(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/tokens", {"token": "wat_secret", "tokenId": 3})
    result = det(cluster, "token", "create", "-e", "2", "-d", "ci")
    assert (result.stdout, result.stderr) == (
        "wat_secret\n",
        "Access token 3 of ann, shown this once:\n",
    )
    result = det(cluster, "tkn", "create", "bob", "-e", "-1", "--token-only")
    assert (result.stdout, result.stderr) == ("wat_secret\n", "")
    as_json = det(cluster, "token", "create", "--json").stdout
    assert json.loads(as_json) == {"token": "wat_secret", "tokenId": 3}
    days, longest, default = (call.body for call in cluster.calls("POST", "/api/v1/tokens"))
    assert days == {"userId": 5, "lifespan": "48h", "description": "ci"}
    assert (longest["userId"], longest["lifespan"]) == (6, "-1")
    assert default["lifespan"] is None


def test_access_tokens_are_listed_with_their_state(cluster: ScriptedMaster) -> None:
    ended = {**TOKEN, "id": 4, "expiry": "2026-01-03T00:00:00Z"}
    revoked = {**TOKEN, "id": 5, "revoked": True}
    page = {"endIndex": 3, "total": 3}
    cluster.on("GET", "/api/v1/tokens", {"tokenInfo": [TOKEN, ended, revoked], "pagination": page})
    words = ("--columns", "id,user,state,description", "--csv")
    result = det(cluster, "token", "list", "ann", "--show-inactive", *words)
    assert result.stdout.splitlines()[1:] == [
        "3,ann,valid,ci",
        "4,ann,expired,ci",
        "5,ann,revoked,ci",
    ]
    (asked,) = cluster.calls("GET", "/api/v1/tokens")
    assert (asked.query["username"], asked.query["showInactive"]) == (["ann"], ["true"])
    described = det(cluster, "token", "describe", "3", "4", "5", "--json")
    assert [one["id"] for one in json.loads(described.stdout)] == [3, 4, 5]
    assert refused(det(cluster, "token", "describe", "9")) == (
        "error: access token '9' not found\n"
    )


def test_access_tokens_are_described_and_revoked(cluster: ScriptedMaster) -> None:
    cluster.on("PATCH", "/api/v1/tokens/[34]", {"tokenInfo": TOKEN})
    assert said(cluster, "token", "edit", "3", "-d", "new") == "Changed access token 3\n"
    assert said(cluster, "token", "revoke", "3", "4") == (
        "Revoked access token 3\nRevoked access token 4\n"
    )
    edit, revoke, _ = (call.body for call in cluster.calls("PATCH", "/api/v1/tokens/[34]"))
    assert edit == {"tokenId": 3, "description": "new"}
    assert revoke == {"tokenId": 3, "setRevoked": True}
    assert "--description" in refused(det(cluster, "token", "edit", "3"))


def test_a_client_logs_in_with_a_token(cluster: ScriptedMaster) -> None:
    assert said(cluster, "token", "login", stdin="wat_good\n") == (
        f"Logged in as ann at {cluster.url}\n"
    )
    assert TokenCache().token(cluster.url, "ann") == "wat_good"
    assert TokenCache().active_user(cluster.url) == "ann"
    assert cluster.calls("GET", "/api/v1/me")[-1].headers["authorization"] == "Bearer wat_good"
    cluster.on("GET", "/api/v1/me", lambda _: (401, {"error": {"error": "invalid credentials"}}))
    line = refused(det(cluster, "token", "login", "wat_bad"))
    assert "does not accept this token: it may be revoked, or have expired" in line
    assert "wat_bad" not in line


def test_all_logins_of_this_client_end_at_once(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/auth/logout", {})
    TokenCache().remember(cluster.url, "bob", "b")
    before = TokenCache().users(cluster.url)
    assert len(before) == 2
    said(cluster, "user", "logout", "--all")
    assert TokenCache().users(cluster.url) == []
    assert len(cluster.calls("POST", "/api/v1/auth/logout")) == 2
