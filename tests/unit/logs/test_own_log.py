"""The master's own log as administrators read it: bounded, in order, without secrets."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import aclosing

import pytest

from master.core.actor import Actor
from master.core.expconf.secrets import MASK
from master.logs.own_log import MAX_CHARACTERS, MAX_ENTRIES, OwnLog, render

ROOT = Actor(user_id=1, name="admin")


def logger_of(own: OwnLog) -> logging.Logger:
    logger = logging.Logger("own")
    logger.addHandler(own.handler)
    return logger


def texts(own: OwnLog, offset: int = 0, limit: int = 0) -> list[str]:
    return [entry.message for entry in own.entries(offset, limit)]


def test_only_the_newest_are_kept() -> None:
    own = OwnLog()
    logger = logger_of(own)
    for number in range(MAX_ENTRIES + 3):
        logger.info("%s", number)
    kept = own.entries()
    assert (kept[0].message, kept[0].id) == ("3", 4)
    assert texts(own, -2) == [str(MAX_ENTRIES + 1), str(MAX_ENTRIES + 2)]
    assert texts(own, 1, 2) == ["4", "5"]
    assert texts(own, -(MAX_ENTRIES + 5), 1) == ["3"]


def test_secrets_never_show() -> None:
    own = OwnLog(secrets=["hunter2-hunter2", "db"])
    logger = logger_of(own)
    logger.error("cannot log in with hunter2-hunter2 at postgresql://me:pass-word@db/x")
    logger.info("Authorization: Bearer abcdef.123")
    assert texts(own) == [
        f"cannot log in with {MASK} at postgresql://me:{MASK}@db/x",
        f"Authorization: Bearer {MASK}",
    ]
    event = {"event": "joined", "level": "info", "agent": "a b", "join_token": "t", "token_id": "7"}
    assert render(None, "", event) == f"joined agent='a b' join_token={MASK} token_id=7"


def test_an_entry_is_bounded() -> None:
    own = OwnLog()
    logger_of(own).info("x" * (MAX_CHARACTERS + 1))
    assert texts(own) == ["x" * MAX_CHARACTERS + " [cut]"]


async def test_a_follower_sees_what_is_there_and_what_comes_from_any_thread() -> None:
    own = OwnLog()
    logger = logger_of(own)
    for text in "abc":
        logger.info(text)
    seen: list[str] = []
    async with asyncio.timeout(30), aclosing(own.follow(-2)) as pages:
        async for page in pages:
            seen += [entry.message for entry in page]
            if seen == ["b", "c"]:
                thread = threading.Thread(target=logger.warning, args=("d",))
                thread.start()
                await asyncio.to_thread(thread.join)
            if len(seen) == 3:
                break
    assert seen == ["b", "c", "d"]


async def test_a_slow_follower_misses_the_oldest_and_looks_at_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = OwnLog()
    logger = logger_of(own)
    logger.info("first")
    seen: list[str] = []
    async with asyncio.timeout(30), aclosing(own.follow()) as pages:
        assert [entry.message for entry in await anext(pages)] == ["first"]
        monkeypatch.setattr(own, "entries", None)
        for number in range(MAX_ENTRIES + 3):
            logger.info("%s", number)
        while len(seen) < MAX_ENTRIES:
            seen += [entry.message for entry in await anext(pages)]
    assert seen == [str(number) for number in range(3, MAX_ENTRIES + 3)]


async def test_a_change_of_the_level_keeps_the_colours() -> None:
    done: list[tuple[str, bool]] = []
    own = OwnLog("info", True, set_up=lambda level, color, more: done.append((level, color)))
    await own.change(by=ROOT, level="debug")
    await own.change(by=ROOT, color=False)
    assert done == [("debug", True), ("debug", False)]
