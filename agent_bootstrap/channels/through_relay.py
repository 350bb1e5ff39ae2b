"""The node's end of the relay on the login node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_bootstrap.channels.streams import OPEN_LIMIT_S, SocketStream, Stream, reason
from agent_bootstrap.channels.tickets import GREETING, NOTICE, name_of, ticket, token_in

TRY_S = 4.0
"""For one of its addresses."""


@dataclass(frozen=True, slots=True)
class RelayAddress:
    """Where a relay listens, as it wrote it down."""

    hosts: tuple[str, ...]
    port: int

    @classmethod
    def read(cls, root: Path) -> RelayAddress:
        """Raises OSError with words."""
        try:
            told = json.loads((root / NOTICE).read_bytes())
            return cls(tuple(map(str, told["hosts"])), int(told["port"]))
        except FileNotFoundError:
            raise ConnectionError("none runs on the login node") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConnectionError(f"{root / NOTICE} cannot be read: {error}") from None


class ThroughRelay:
    """Implements `Transport`."""

    name = "relay"

    def __init__(self, folder: Path) -> None:
        """`folder`: of this node, in the directory of its job."""
        self._folder = folder

    async def open(self) -> Stream:
        notice = await asyncio.to_thread(RelayAddress.read, self._folder.parents[2])
        failed: list[str] = []
        for host in best_first(notice.hosts):
            try:
                async with asyncio.timeout(TRY_S):
                    reader, writer = await asyncio.open_connection(host, notice.port)
            except TimeoutError:
                failed.append(f"{host}:{notice.port} does not answer within {TRY_S:g} s")
            except OSError as error:
                failed.append(f"{host}:{notice.port}: {reason(error)}")
            else:
                return await shown(reader, writer, self._folder)
        raise ConnectionError("; ".join(failed) or "it has no address")

    async def close(self) -> None:
        """Nothing was started."""


def best_first(hosts: Sequence[str]) -> Sequence[str]:
    """Loopback is another machine's."""
    return sorted(hosts, key=lambda host: host.startswith("127."))


async def shown(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, folder: Path) -> Stream:
    """The relay has let us in. Raises OSError with words."""
    try:
        async with asyncio.timeout(2 * OPEN_LIMIT_S):
            return await _shown(reader, writer, folder)
    except TimeoutError:
        writer.close()
        raise ConnectionError("it does not answer") from None
    except BaseException:
        writer.close()
        raise


async def _shown(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, folder: Path
) -> Stream:
    greeting, _, nonce = (await _line(reader)).rpartition(" ")
    if greeting != GREETING:
        raise ConnectionError("what answers there is no relay")
    try:
        token = await asyncio.to_thread(token_in, folder)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"the token of this job cannot be read: {error}") from None
    writer.write(f"{ticket(name_of(folder), token, nonce)}\n".encode())
    await writer.drain()
    answer = await _line(reader)
    if answer != "ok":
        raise ConnectionError(answer.removeprefix("no ") or "it closed the connection")
    return SocketStream(reader, writer)


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readline()).decode(errors="replace").rstrip("\n")
    except ValueError:
        raise ConnectionError("what answers there is no relay") from None
