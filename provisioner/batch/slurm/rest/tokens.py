"""JSON web tokens for slurmrestd: from a file, or from a command that mints them.

They are secrets: in no log, in no message, on no command line. What mints them may have secrets of its own among its
arguments, and users read why their work waits: they are told how it failed, administrators find more in the log.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from agent_bootstrap.bounds import one_line
from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import Commands

log = logging.getLogger(__name__)

UNDATED_S = 300.0
"""How long a token is used that does not say when it ends."""
_VARIABLE = "SLURM_JWT="
"""Before what `scontrol token` prints."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""Others cannot be sent in a header, and the complaint about that would repeat them."""
_SIGNED = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]+")
_LEAST_SECRET = 8
"""Characters of an argument that may be one."""
_MORE = "the master's log says more"


class Tokens(Protocol):
    @property
    def way_out(self) -> str:
        """What to do when slurmrestd does not take one."""
        ...

    async def token(self) -> str:
        """One that has not expired. Raises NoAnswer."""
        ...

    def refused(self) -> None:
        """The last one was not taken."""
        ...


class FileTokens:
    """Implements `Tokens`: read again for every call, so that others may renew it."""

    def __init__(self, file: Path, *, now: Callable[[], float] = time.time) -> None:
        self._file = file
        self._now = now

    @property
    def way_out(self) -> str:
        return f"write a new one to {self._file}: scontrol token lifespan=SECONDS"

    async def token(self) -> str:
        try:
            mode = self._file.stat().st_mode
            text = self._file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise NoAnswer(f"api.token_file {self._file} cannot be read: {why}") from None
        if mode & 0o077:
            problem = f"others may read api.token_file {self._file}: chmod 600 {self._file}"
            raise NoAnswer(problem)
        token = bare(text)
        if not token:
            raise NoAnswer(f"api.token_file {self._file} is empty: {self.way_out}")
        ends = ends_at(token)
        if ends is not None and ends <= self._now():
            at = f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M:%S} UTC"
            raise NoAnswer(f"the token in {self._file} expired at {at}: {self.way_out}")
        return token

    def refused(self) -> None:
        """The next call reads the file again."""


class CommandTokens:
    """Implements `Tokens`: minted anew at half of their time."""

    def __init__(
        self, commands: Commands, line: Sequence[str], *, now: Callable[[], float] = time.time
    ) -> None:
        self._commands = commands
        self._line = tuple(line)
        self._now = now
        self._token = ""
        self._good_until = 0.0
        self._logged = ""

    @property
    def way_out(self) -> str:
        return "see what api.token_command of the master's configuration prints"

    async def token(self) -> str:
        now = self._now()
        if not self._token or now >= self._good_until:
            self._token = await self._mint()
            ends = ends_at(self._token)
            self._good_until = now + (UNDATED_S if ends is None else (ends - now) / 2)
        return self._token

    def refused(self) -> None:
        self._token = ""

    async def _mint(self) -> str:
        try:
            done = await self._commands.run(self._line)
        except NoAnswer as error:
            self._log(error.message)
            raise NoAnswer(f"api.token_command gave no answer: {_MORE}") from None
        # What it printed may hold a token: only its complaints are logged.
        token = bare(done.out)
        if done.code or not token:
            said = f"api.token_command printed no token (exit code {done.code})"
            self._log(f"{said}: {self._complaint(done.err)}")
            raise NoAnswer(f"{said}: {_MORE}")
        self._logged = ""
        ends = ends_at(token)
        if ends is not None and ends <= self._now():
            raise NoAnswer(
                "api.token_command printed a token that has expired: give it a longer life"
            )
        return token

    def _log(self, text: str) -> None:
        """Once, however often it is tried."""
        if text != self._logged:
            log.warning("%s", text)
        self._logged = text

    def _complaint(self, said: str) -> str:
        """Its last line, without what it was given or minted."""
        last = next(reversed(said.strip().splitlines()), "it said nothing")
        for word in self._line[1:]:
            last = last.replace(word, "...") if len(word) >= _LEAST_SECRET else last
        return one_line(_SIGNED.sub("...", last))


def bare(text: str) -> str:
    """Without `SLURM_JWT=`, blanks and lines before it. Empty: there is none."""
    last = next(reversed(text.strip().splitlines()), "").strip().removeprefix(_VARIABLE)
    return last if _TOKEN.fullmatch(last) else ""


def ends_at(token: str) -> float | None:
    """As it says itself; whether that is so only Slurm can tell."""
    claims = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    except (ValueError, binascii.Error):
        return None
    ends = said.get("exp") if isinstance(said, dict) else None
    return float(ends) if isinstance(ends, int | float) and not isinstance(ends, bool) else None
