"""JSON web tokens for slurmrestd."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import FinishedCommand, LocalCommands
from provisioner.batch.slurm.rest import transports as ways
from provisioner.batch.slurm.rest.tokens import CommandTokens, FileTokens, ends_at
from provisioner.sections.slurm_api import SlurmApiSection


def jwt(ends: float) -> str:
    claims = json.dumps({"exp": ends, "iat": 0, "sun": "alice"}).encode()
    return f"head.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.sign"


def a_file(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_file_is_read_for_every_call(tmp_path: Path) -> None:
    file = a_file(tmp_path, f"SLURM_JWT={jwt(200)}\n")
    tokens = FileTokens(file, now=lambda: 100.0)
    assert asyncio.run(tokens.token()) == jwt(200)
    file.write_text(jwt(300))
    assert asyncio.run(tokens.token()) == jwt(300)


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (jwt(99), 0o600, r"expired at 1970-01-01 00:01:39 UTC.*scontrol token lifespan"),
        (jwt(200), 0o640, r"others may read .*chmod 600"),
        ("", 0o600, r"is empty.*scontrol token"),
    ],
)
def test_a_file_that_does_not_do_names_the_way_out(
    tmp_path: Path, text: str, mode: int, said: str
) -> None:
    tokens = FileTokens(a_file(tmp_path, text, mode), now=lambda: 100.0)
    with pytest.raises(NoAnswer, match=said) as failed:
        asyncio.run(tokens.token())
    assert not text or text not in failed.value.message


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match="cannot be read: No such file"):
        asyncio.run(FileTokens(tmp_path / "none").token())


class Mint:
    def __init__(self, *answers: FinishedCommand) -> None:
        self.answers = list(answers)

    async def run(self, words: Any, *, stdin: str = "", limit_s: float = 0) -> FinishedCommand:
        return self.answers.pop(0)


def test_a_command_mints_anew_at_half_of_the_time() -> None:
    now = [0.0]
    mint = Mint(
        FinishedCommand(0, f"SLURM_JWT={jwt(100)}\n"), FinishedCommand(0, f"SLURM_JWT={jwt(200)}\n")
    )
    tokens = CommandTokens(mint, ["scontrol", "token"], now=lambda: now[0])
    assert asyncio.run(tokens.token()) == jwt(100)
    now[0] = 49.0
    assert asyncio.run(tokens.token()) == jwt(100)
    now[0] = 50.0
    assert asyncio.run(tokens.token()) == jwt(200)


def test_a_token_that_was_not_taken_is_not_used_again() -> None:
    mint = Mint(FinishedCommand(0, jwt(100)), FinishedCommand(0, jwt(101)))
    tokens = CommandTokens(mint, ["mint"], now=lambda: 0.0)
    assert asyncio.run(tokens.token()) == jwt(100)
    tokens.refused()
    assert asyncio.run(tokens.token()) == jwt(101)


@pytest.mark.parametrize(
    "done",
    [
        FinishedCommand(1, "SLURM_JWT=se.cr.et", "Error fetching token"),
        FinishedCommand(0, "Error fetching token in se.cr.et"),
        FinishedCommand(0, "SLURM_JWT=se.cr.et\x7f"),
        FinishedCommand(0, "SLURM_JWT=se.cr.et\u2026"),
    ],
)
def test_a_command_that_fails_is_told_without_what_it_printed(done: FinishedCommand) -> None:
    with pytest.raises(NoAnswer, match="token_command printed no token") as failed:
        asyncio.run(CommandTokens(Mint(done), ["mint"]).token())
    assert "se.cr.et" not in failed.value.message


def test_what_mints_tokens_is_told_to_administrators_and_its_arguments_to_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Users read the message as the reason why their work waits."""
    secret, token = "Authorization: Bearer s3cr3t-of-the-site", f"e.{'x' * 20}.sig"
    err = f"connecting\nmint: 403 for {secret}, had {token}\n"
    tokens = CommandTokens(Mint(*[FinishedCommand(7, "", err)] * 2), ["/opt/mint", "-H", secret])
    said = [tokens.way_out]
    for _ in range(2):
        with pytest.raises(NoAnswer) as failed:
            asyncio.run(tokens.token())
        said.append(failed.value.message)
    assert "exit code 7" in said[-1]
    assert "master's log" in said[-1]
    assert not [one for one in said if "mint:" in one or "/opt/mint" in one or "s3cr3t" in one]
    assert [record.message for record in caplog.records] == [
        "api.token_command printed no token (exit code 7): mint: 403 for ..., had ..."
    ]


def test_what_mints_tokens_and_cannot_be_run_is_named_in_the_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = CommandTokens(LocalCommands(), [str(tmp_path / "none"), "secret-argument"])
    with pytest.raises(NoAnswer, match="token_command gave no answer") as failed:
        asyncio.run(tokens.token())
    assert str(tmp_path) not in failed.value.message
    assert f"{tmp_path}/none cannot be run: No such file" in caplog.text
    assert "secret-argument" not in caplog.text


@pytest.mark.parametrize("token", ["", "opaque", "a.b.c", "a.e30.c", "a.W10.c"])
def test_a_token_that_does_not_say_when_it_ends(token: str) -> None:
    assert ends_at(token) is None


class Minting:
    """Commands of one user; `scontrol token` says whose."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[list[str]] = []

    async def run(self, words: Any, *, stdin: str = "", limit_s: float = 0) -> FinishedCommand:
        self.lines.append(list(words))
        return FinishedCommand(0, f"SLURM_JWT=token.of.{self.name}\n")


@pytest.mark.parametrize(
    ("line", "minter", "asked"),
    [
        (("scontrol", "token"), "alice", ["scontrol", "token"]),
        (("mint", "username={user}"), "master", ["mint", "username=alice"]),
    ],
)
def test_jobs_of_a_user_are_asked_for_with_a_token_of_theirs(
    monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...], minter: str, asked: list[str]
) -> None:
    """Users mint their own; a command that mints for others runs as the master."""
    seen = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.headers["X-SLURM-USER-NAME"], request.headers["X-SLURM-USER-TOKEN"]))
        if request.url.path == "/openapi/v3":
            return httpx2.Response(200, text='"/slurm/v0.0.38/jobs"')
        job = {"name": "wl-1", "job_state": "RUNNING"}
        theirs = {"job_id": 1, "user_name": "alice", **job}
        ours = {"job_id": 2, "user_name": "master", **job}
        return httpx2.Response(200, json={"jobs": [theirs, ours]})

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", lambda **_: httpx2.MockTransport(handle))
    who = {name: Minting(name) for name in ("master", "alice")}
    api = SlurmApiSection(url="http://127.0.0.1:1", user="master", token_command=line)
    system = ways.user_system(api, "alice", who["master"], who["alice"])
    found = asyncio.run(system.poll(["wl-1"]))
    assert found["wl-1"].job_id == "1"
    assert set(seen) == {("alice", f"token.of.{minter}")}
    assert who[minter].lines[0] == asked
    assert len(who["master"].lines) + len(who["alice"].lines) == 1
