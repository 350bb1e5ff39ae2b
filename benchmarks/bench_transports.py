"""Ways to the master beside the network itself: bytes a second both transports, and one round trip.

Everything is on this machine: what is measured is what a way adds. srun is played by a program that runs its command.
Goal, by every way: 5 MiB a second, which is 50,000 lines of output of 100 bytes, and 100 ms for a round trip.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from agent_bootstrap.channels.streams import Stream, Transport
from benchmarks.arguments import arguments, sized
from tests.fakes import transports_world
from tests.sshd import SSHD

LOCAL = ("direct", "relay", "srun", "files")
BY_SSHD = ("ssh", "ssh_to_relay", "relay_over_ssh")
MIB = 1024 * 1024
GOAL_MIB_S, GOAL_MS = 5.0, 100.0
SLOW = {"files": (10, 16)}
"""Round trips and MiB of those that take longer."""


async def read(stream: Stream, count: int) -> None:
    while count > 0:
        data = await stream.read()
        if not data:
            raise ConnectionError("it ended too early")
        count -= len(data)


async def round_trip_ms(way: Transport, rounds: int) -> float:
    stream = await way.open()
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        await stream.write(b"x" * 64)
        await read(stream, 64)
        seconds.append(time.perf_counter() - begun)
    stream.close()
    return statistics.median(seconds) * 1000


async def mib_per_s(way: Transport, mib: int) -> float:
    """There and back at the same time."""
    stream = await way.open()

    async def send() -> None:
        for _ in range(mib * 16):
            await stream.write(bytes(MIB // 16))

    begun = time.perf_counter()
    sending = asyncio.create_task(send())
    await read(stream, mib * MIB)
    await sending
    seconds = time.perf_counter() - begun
    stream.close()
    return mib / seconds


async def measure(name: str, folder: Path, rounds: int, mib: int) -> tuple[float, float]:
    rounds, mib = SLOW.get(name, (rounds, mib))
    async with getattr(transports_world, name)(folder) as world:
        await round_trip_ms(world.way, 3)
        return await round_trip_ms(world.way, rounds), await mib_per_s(world.way, mib)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=sized(300, 2))
    parser.add_argument("--mib", type=int, default=sized(64, 1))
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    names = (*LOCAL, *(BY_SSHD if SSHD is not None else ()))
    if SSHD is None:
        print(f"sshd is not installed: without {', '.join(BY_SSHD)}")
    print(f"{'way':16}{'round trip':>14}{'MiB/s':>10}{'of direct':>12}")
    first, missed = 0.0, []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="w-", ignore_cleanup_errors=True) as folder:
            took_ms, rate = asyncio.run(measure(name, Path(folder), given.rounds, given.mib))
        first = first or rate
        if took_ms > GOAL_MS or rate < GOAL_MIB_S:
            missed.append(name)
        print(f"{name:16}{took_ms:11.2f} ms{rate:10.1f}{rate / first:12.2f}", flush=True)
    verdict = f"OVER: {', '.join(missed)}" if missed else "within"
    print(f"goal: {GOAL_MIB_S:g} MiB/s, {GOAL_MS:g} ms: {verdict}")


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
