"""What becomes of calls: receivers that fail in every way, masters that die, and rows that are forgotten."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from master.core.webhooks.retries import Answer, Failure
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.webhooks import client
from master.webhooks.client import HttpCaller
from master.webhooks.deliveries import KEPT
from master.webhooks.targets import Targets
from tests.fakes.hooks import ANN, FACTS, KEY, SOURCE, Hooks
from tests.fakes.receiver import Receiver, receiver
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument, StoreUnavailable

EXAMPLE = Path(__file__).parents[3] / "examples" / "webhook_receiver" / "receiver.py"
DEAD = "http://127.0.0.1:9/hook"


def told(chat: Receiver) -> list[int]:
    """The ids of the experiments that it heard of."""
    sent = (json.loads(call.body)["event_data"]["experiment"] for call in chat.received)
    return [one["id"] for one in sent]


def event_ids(chat: Receiver) -> list[str]:
    return [json.loads(call.body)["event_id"] for call in chat.received]


async def test_who_was_off_for_an_hour_is_told_everything_in_order(
    hooks: Hooks, chat: Receiver
) -> None:
    id_ = await hooks.create(DEAD)
    await hooks.ended(1, 2, 3)
    for _ in range(60):
        await hooks.deliver()
        hooks.clock.advance(60)
    first, *others = await hooks.events()
    assert "cannot be reached" in first.last_result
    assert 8 < first.attempts < 12, "the waits grow"
    assert [one.attempts for one in others] == [0, 0]
    await hooks.service.set_url(id_, chat.url, by=ANN)
    hooks.clock.advance(3600)
    await hooks.deliver()
    assert told(chat) == [1, 2, 3]
    assert all(one.delivered_at for one in await hooks.events())


@pytest.mark.parametrize(
    ("answer", "result", "again"),
    [
        ("500 X", "HTTP status 500", True),
        ("429 X\r\nRetry-After: 600", "HTTP status 429", True),
        ("", "cannot be reached", True),
        ("no number", "cannot be reached", True),
        ("404 X", "HTTP status 404", False),
        ("307 X\r\nLocation: http://169.254.169.254/", "redirects are not followed", False),
    ],
)
async def test_what_a_bad_answer_means(
    hooks: Hooks, chat: Receiver, answer: str, result: str, again: bool
) -> None:
    await hooks.create(chat.url)
    await hooks.ended(1)
    chat.answers = [answer]
    await hooks.deliver()
    (row,) = await hooks.events()
    assert result in row.last_result
    assert (row.next_try is not None) == again
    assert row.delivered_at is None
    assert len(chat.received) == 1, "and nobody else was called"
    hooks.clock.advance(599)
    await hooks.deliver()
    assert len(chat.received) == 1 + (again and "429" not in answer)
    hooks.clock.advance(1)
    await hooks.deliver()
    assert len(set(event_ids(chat))) == 1
    assert told(chat) == [1] * (1 + again)


async def test_a_clock_that_was_set_back_delays_nothing(hooks: Hooks, chat: Receiver) -> None:
    await hooks.create(chat.url)
    await hooks.ended(1)
    chat.answers = ["500 X"]
    await hooks.deliver()
    assert (await hooks.events())[0].delivered_at is None
    hooks.clock.jump(-5 * 3600)
    await hooks.deliver()
    assert told(chat) == [1, 1]
    (row,) = await hooks.events()
    assert row.delivered_at == hooks.clock.now()


async def test_who_is_slow_or_away_delays_nobody(hooks: Hooks, chat: Receiver) -> None:
    async with receiver() as slow:
        slow.may_answer.clear()
        for url in (slow.url, DEAD, chat.url):
            await hooks.create(url)
        await hooks.ended(*range(1, 6))
        await hooks.deliveries.step()
        await chat.until(5)
        slow.may_answer.set()
        await hooks.deliveries.settle()
        assert told(slow) == told(chat) == [1, 2, 3, 4, 5]


async def test_who_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT_S", 0.05)
    async with receiver() as slow:
        slow.may_answer.clear()
        found = await HttpCaller(Targets(["127.0.0.1"]))(slow.url, b"{}", {})
    assert isinstance(found, Failure)
    assert found.why.startswith("no answer within")
    assert not found.is_final


async def test_a_thousand_ends_at_once_are_all_told(
    memory_store: Store, clock: ManualClock
) -> None:
    called: list[bytes] = []

    async def caller(url: str, body: bytes, headers: Mapping[str, str]) -> Answer | Failure:
        called.append(body)
        return Answer(200)

    hooks = Hooks(memory_store, clock, caller=caller)
    await hooks.start()
    await hooks.create(DEAD)
    unit = UnitOfWork()
    for id_ in range(1, 1001):
        unit.extend(hooks.registry.state_changed(SOURCE, replace(FACTS, id=id_)))
    await memory_store.commit(unit)
    await hooks.deliver()
    found = [json.loads(body)["event_data"]["experiment"]["id"] for body in called]
    assert found == list(range(1, 1001))


async def test_a_master_that_dies_anywhere_calls_at_least_once(
    memory_store: Store, clock: ManualClock
) -> None:
    """It ends after each number of steps of its event loop in turn; the next one goes on from the rows."""
    called: list[tuple[int, str]] = []
    """Master, event."""

    async def caller(url: str, body: bytes, headers: Mapping[str, str]) -> Answer | Failure:
        await asyncio.sleep(0)
        called.append((master, json.loads(body)["event_id"]))
        await asyncio.sleep(0)
        return Answer(200)

    hooks = Hooks(memory_store, clock, caller=caller)
    await hooks.start()
    await hooks.create(DEAD)
    master = steps = 0
    again = whole = 0
    while whole < 3:
        called.clear()
        await hooks.ended(1, 2)
        one = asyncio.create_task(hooks.deliver())
        for _ in range(steps):
            await asyncio.sleep(0)
        whole += one.done()
        one.cancel()
        for task in list(hooks.deliveries._busy.values()):
            task.cancel()
        await asyncio.gather(one, return_exceptions=True)
        await hooks.deliveries.settle()
        await hooks.restart()
        master += 1
        await hooks.deliver()
        ids = [event for _, event in called]
        assert len(set(ids)) == 2, f"lost after {steps} steps"
        assert list(dict.fromkeys(ids)) == [row.event_id for row in (await hooks.events())[-2:]]
        assert len(ids) <= 3, "no more than the call that was not noted"
        again += len(ids) - 2
        assert all(row.delivered_at for row in await hooks.events())
        steps += 1
    assert again, "the walk has met the moment between the call and the note of it"


async def test_a_call_of_a_webhook_that_was_deleted_harms_nobody(hooks: Hooks) -> None:
    """The change of an experiment was about to be committed when somebody deleted the webhook."""
    id_ = await hooks.create(DEAD)
    about_to = hooks.registry.state_changed(SOURCE, FACTS)
    await hooks.service.delete(id_, by=ANN)
    await hooks.store.commit(about_to)
    await hooks.deliver()
    (row,) = await hooks.events()
    assert row.attempts == 0
    hooks.clock.advance(KEPT.total_seconds() + 1)
    await hooks.deliver()
    assert await hooks.events() == []


async def test_a_webhook_that_cannot_be_deleted_is_called_on(
    hooks: Hooks, chat: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = await hooks.create(chat.url)

    async def full(unit: UnitOfWork) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(hooks.store, "commit", full)
        with pytest.raises(StoreUnavailable):
            await hooks.service.delete(id_, by=ANN)
    await hooks.ended(1)
    await hooks.deliver()
    assert told(chat) == [1]


async def test_what_is_over_is_forgotten_after_a_week(hooks: Hooks, chat: Receiver) -> None:
    await hooks.create(chat.url)
    await hooks.ended(1, 2)
    await hooks.deliver()
    hooks.clock.advance(KEPT.total_seconds() - 10)
    await hooks.ended(3)
    await hooks.deliver()
    assert len(await hooks.events()) == 3
    hooks.clock.advance(3601)
    await hooks.deliver()
    (left,) = await hooks.events()
    assert left.facts["experiment"]["id"] == 3


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[::169.254.169.254]",
        "127.0.0.1",
        "127.1.2.3",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",  # noqa: S104
        "[::]",
        "224.0.0.1",
        "100.100.100.200",
        # These are numbers of IPv4 addresses as resolvers read them.
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "169.254.43518",
    ],
)
async def test_where_clouds_keep_credentials_nobody_calls(host: str) -> None:
    found = await HttpCaller(Targets())(f"http://{host}/latest", b"{}", {})
    assert isinstance(found, Failure)
    assert found.is_final, found
    assert "which webhooks do not call" in found.why


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".org"])
async def test_a_name_that_no_host_can_have_is_refused(host: str) -> None:
    url = f"http://{host}/hook"
    with pytest.raises(InvalidArgument, match="valid url required"):
        Targets().require_url(url)
    found = await HttpCaller(Targets())(url, b"{}", {})
    assert isinstance(found, Failure)
    assert found.is_final


@pytest.mark.parametrize(
    ("addresses", "called"),
    [
        (["169.254.169.254"], None),
        (["::ffff:169.254.169.254"], None),
        (["127.0.0.1"], None),
        (["169.254.169.254", "192.0.2.7"], "192.0.2.7"),
        (["192.0.2.7"], "192.0.2.7"),
    ],
)
async def test_names_are_looked_up_once_and_that_address_is_called(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], called: str | None
) -> None:
    looked_up: list[str] = []

    async def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        looked_up.append(host)
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    if called is None:
        found = await HttpCaller(Targets())("https://rebound.example.org/x", b"", {})
        assert isinstance(found, Failure)
        assert found.is_final
    else:
        endpoint = await Targets().resolve("https://rebound.example.org/x")
        assert (endpoint.address, endpoint.port) == (called, 443)
    assert looked_up == ["rebound.example.org"]


async def listens(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.02)


async def test_a_program_apart_checks_the_signature(hooks: Hooks) -> None:
    """That of the documentation, as users start it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        env={**os.environ, "WINDLASS_KEY": KEY, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert running.stdout is not None
        await hooks.create(f"http://127.0.0.1:{port}/")
        await hooks.ended(1)
        await listens(port)
        await hooks.deliver()
        line = (await running.stdout.readline()).decode()
        assert line.startswith("signed {"), line
        forged = await HttpCaller(hooks.targets)(
            f"http://127.0.0.1:{port}/",
            b"{}",
            {
                "X-Windlass-Signature-Timestamp": "1",
                "X-Windlass-Signature": "0" * 64,
            },
        )
        assert forged == Answer(401)
    finally:
        running.kill()
        await running.wait()
