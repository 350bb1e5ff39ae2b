"""The virtual clock of the simulations: jumps, never waits, and never jumps over work outside the loop."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.fakes.virtual_time import START, LoopClock, NothingLeftToHappen, VirtualTimeLoop, run


def test_hours_pass_at_once_and_in_order() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        seen: list[float] = []

        async def sleeper(seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append(loop.time())

        await asyncio.gather(*(sleeper(s) for s in (7200, 0.5, 3600, 86_400 * 3)))
        return seen

    assert run(main()) == pytest.approx([0.5, 3600, 7200, 86_400 * 3])


def test_time_stands_still_during_thread_calls() -> None:
    async def main() -> tuple[int, float]:
        async with asyncio.timeout(0.001):
            answer = await asyncio.to_thread(lambda: time.sleep(0.05) or 42)  # type: ignore[func-returns-value]
        return answer, asyncio.get_running_loop().time()

    assert run(main()) == (42, 0.0)


def test_thread_calls_finish_in_the_order_of_their_calls() -> None:
    async def main() -> list[int]:
        done: list[int] = []

        async def call(number: int, seconds: float) -> None:
            await asyncio.to_thread(time.sleep, seconds)
            done.append(number)

        await asyncio.gather(call(1, 0.03), call(2, 0), call(3, 0.01))
        return done

    assert run(main()) == [1, 2, 3]


def test_an_error_in_a_thread_reaches_its_caller() -> None:
    def fail() -> None:
        raise KeyError("x")

    async def main() -> None:
        with pytest.raises(KeyError):
            await asyncio.to_thread(fail)

    run(main())


def test_time_stands_still_for_outside_work() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        answered = asyncio.Event()
        with loop.outside_work():
            thread = threading.Thread(target=loop.call_soon_threadsafe, args=(answered.set,))
            async with asyncio.timeout(0.001):
                thread.start()
                await answered.wait()
        thread.join()
        return loop.time()

    assert run(main()) == 0.0


def test_a_deadlock_is_an_error_at_once() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeftToHappen, match="nothing ready"):
        run(main())


def test_a_limit_ends_what_never_ends() -> None:
    async def main() -> None:
        async with asyncio.timeout(1000):
            await asyncio.Event().wait()

    with pytest.raises(NothingLeftToHappen, match="100 virtual seconds"):
        run(main(), limit_s=100)


def test_the_clock_follows_the_loop() -> None:
    async def main() -> None:
        clock = LoopClock()
        assert clock.now() == START
        await asyncio.sleep(90)
        assert (clock.now() - START).total_seconds() == pytest.approx(90)
        assert await asyncio.to_thread(clock.monotonic) == pytest.approx(90)

    run(main())
