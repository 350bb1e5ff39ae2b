"""Why `ssh` from a node did not lead to the master: the last words of ssh, and of nobody else."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from agent_bootstrap.channels.through_ssh import ThroughSsh


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("echo 'me@login: Permission denied (publickey).' >&2; exit 255", "Permission denied"),
        ("echo 'Host key verification failed.' >&2; exit 255", "Host key verification failed."),
        ("exit 255", "ssh ended with exit code 255"),
    ],
)
def test_it_is_told_in_the_words_of_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\n{program}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    async def try_it() -> None:
        way = ThroughSsh("me@login", ("127.0.0.1", 9), None)
        try:
            with pytest.raises(ConnectionError, match=f"^me@login: .*{re.escape(why)}"):
                await way.open()
        finally:
            await way.close()

    asyncio.run(try_it())
