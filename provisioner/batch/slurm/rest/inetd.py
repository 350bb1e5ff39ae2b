"""slurmrestd without a daemon: one process for each request, which it reads from its standard input.

It runs as the user who calls it and needs no token: on this machine, or on a login node over SSH.
"""

from __future__ import annotations

import re

import httpx2

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import Commands, FinishedCommand

_NO_ACCOUNTING = "slurm not configured with slurmdbd"
"""Why releases before 23.02 do not start with all their plug-ins."""
_CONTROLLER_PLUGIN = re.compile(r"openapi/v[\d.]+$")
_FIND = """IFS=:
for folder in $PATH; do
  found=$folder/slurmrestd
  [ -x "$folder/sinfo" ] && [ -x "${folder%/bin}/sbin/slurmrestd" ] && found=${folder%/bin}/sbin/slurmrestd
  [ -x "$found" ] && echo "$found" && exit
done
exit 1"""
"""By PATH, and beside Slurm's commands there: few users have a folder sbin in it."""
_AFTER_BODY = re.compile(r"Connection: [Cc]lose\s*$")
"""What they write behind the answer."""


class InetdTransport(httpx2.AsyncBaseTransport):
    def __init__(self, commands: Commands, program: str) -> None:
        """`program`: its path; empty: find it."""
        self._commands = commands
        self._program = program
        self._plugins: tuple[str, ...] = ()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises NoAnswer."""
        text = _written(request, (await request.aread()).decode())
        self._program = self._program or await self._found()
        limit_s = float(request.extensions["timeout"]["read"])
        tried = self._plugins
        done = await self._run(text, limit_s)
        if done.code and _NO_ACCOUNTING in done.err and not tried:
            self._plugins = self._plugins or await self._without_accounting()
            done = await self._run(text, limit_s)
        return _read(done, self._program)

    async def _found(self) -> str:
        done = await self._commands.run(["/bin/sh", "-c", _FIND])
        if done.code:
            raise NoAnswer(
                "slurmrestd is neither in PATH nor in the sbin folder beside Slurm's commands: "
                "set path, or api.url to inetd:/PATH/slurmrestd"
            )
        return done.out.strip()

    async def _run(self, text: str, limit_s: float) -> FinishedCommand:
        return await self._commands.run(
            [self._program, *self._plugins], stdin=text, limit_s=limit_s
        )

    async def _without_accounting(self) -> tuple[str, ...]:
        done = await self._commands.run([self._program, "-s", "list"])
        said = f"{done.out}\n{done.err}".replace("slurmrestd:", " ").split()
        found = sorted({word for word in said if _CONTROLLER_PLUGIN.match(word)})
        return ("-s", ",".join(found)) if found else ()


def _written(request: httpx2.Request, body: str) -> str:
    """As slurmrestd reads it. Only our own headers: it ends at those that it does not know."""
    target = request.url.raw_path.decode()
    lines = [
        f"{request.method} {target} HTTP/1.1",
        "Host: localhost",
        "Accept: application/json",
        "Connection: close",
        f"Content-Length: {len(body.encode())}",
        *(["Content-Type: application/json"] if body else []),
    ]
    return "\r\n".join([*lines, "", body])


def _read(done: FinishedCommand, program: str) -> httpx2.Response:
    head, _, body = done.out.partition("\r\n\r\n")
    status = re.match(r"HTTP/1\.\d (\d{3})", head)
    if status is None:
        raise NoAnswer(f"{program}: {done.last}")
    kind = re.search(r"^Content-Type: (\S+)", head, re.MULTILINE | re.IGNORECASE)
    headers = {"Content-Type": kind.group(1)} if kind else {}
    content = _AFTER_BODY.sub("", body).encode()
    return httpx2.Response(int(status.group(1)), headers=headers, content=content)
