"""Frames of agents: what is read, and what ends the connection, with a reason that shows nothing it should not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agent_bootstrap.bounds import (
    MAX_BATCH_BYTES,
    MAX_BATCH_LINES,
    MAX_CONTAINERS,
    MAX_LINE_CHARS,
    MAX_SLOTS,
    MAX_TEXT_CHARS,
)
from agent_bootstrap.frames import LARGE_BYTES, SMALL_BYTES, read_frame
from agent_bootstrap.protocol import (
    BadMessage,
    ContainerReport,
    ContainerState,
    ExitRecord,
    Heartbeat,
    Hello,
    LogBatch,
    LogEntry,
    Slot,
    SlotKind,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
HELLO = {"type": "hello", "version": "1", "agent_id": "a", "pool": "p", "boot_id": "b"}
REPORT = {
    "type": "container_report",
    "container_id": "c",
    "allocation_id": "t.1",
    "state": "EXITED",
    "exit": {"exit_code": 0, "at": "2026-01-01T00:00:00Z"},
}
LINE = {"timestamp": "2026-01-01T00:00:00Z", "stdtype": "stdout", "log": "x"}
BATCH = {
    "type": "log_batch",
    "container_id": "c",
    "allocation_id": "t.1",
    "task_id": "t",
    "agent_id": "a",
    "first_offset": 0,
    "next_offset": 100,
    "entries": [LINE],
}
LEAVING = {"type": "leaving", "at": "2026-01-01T00:00:00Z", "reason": "spot"}
BEAT = {"type": "heartbeat"}
TIMES = (
    "0001-01-01T00:00:00+14:00",
    "1969-12-31T23:59:59Z",
    "2200-01-01T00:00:01Z",
    "9999-12-31T23:59:59-14:00",
    "2026-01-01T00:00:00",
    "yesterday",
    float("nan"),
    float("inf"),
    1e300,
    -1e300,
)


def slots(count: int) -> list[dict[str, Any]]:
    return [{"id": n, "kind": "cpu"} for n in range(count)]


@pytest.mark.parametrize("message", [HELLO, REPORT, BATCH, LEAVING, BEAT])
def test_what_an_agent_says_is_read_from_text_and_from_bytes(message: dict[str, Any]) -> None:
    text = json.dumps(message)
    assert read_frame(text) == read_frame(text.encode())
    assert read_frame(text).type == message["type"]


@pytest.mark.parametrize(
    ("message", "more", "place"),
    [
        (HELLO, {"slots": slots(MAX_SLOTS + 1)}, "slots"),
        (HELLO, {"slots": [{"id": -1, "kind": "cpu"}]}, "slots.0.id"),
        (HELLO, {"slots": [{"id": 70000, "kind": "cpu"}]}, "slots.0.id"),
        (HELLO, {"slots": [{"id": 0, "kind": "cpu", "brand": "b" * 257}]}, "slots.0.brand"),
        (HELLO, {"slots": [{"id": 0, "kind": "cpu", "uuid": "\x1b[2J"}]}, "slots.0.uuid"),
        (HELLO, {"containers": [REPORT] * (MAX_CONTAINERS + 1)}, "containers"),
        (HELLO, {"labels": ["x"] * 65}, "labels"),
        (HELLO, {"labels": ["a\nb"]}, "labels.0"),
        (HELLO, {"notes": ["x"] * 33}, "notes"),
        (HELLO, {"version": "v" * 257}, "version"),
        (HELLO, {"hostname": "a\u202eb"}, "hostname"),
        (HELLO, {"address": "10.0.0.1\r\nX: y"}, "address"),
        (HELLO, {"boot_id": ""}, "boot_id"),
        (HELLO, {"pool": "p" * 257}, "pool"),
        (HELLO, {"instance_id": "\x00"}, "instance_id"),
        (HELLO, {"highest_epoch": -1}, "highest_epoch"),
        (HELLO, {"highest_epoch": 10**30}, "highest_epoch"),
        *((HELLO, {"ends_at": at}, "ends_at") for at in TIMES),
        *((LEAVING, {"at": at}, "at") for at in TIMES),
        *((BATCH, {"entries": [LINE | {"timestamp": at}]}, "timestamp") for at in TIMES),
        *((REPORT, {"exit": {"exit_code": 0, "at": at}}, "exit.at") for at in TIMES),
        (REPORT, {"exit": {"exit_code": 2**31, "at": "2026-01-01T00:00:00Z"}}, "exit_code"),
        (REPORT, {"container_id": "c\n"}, "container_id"),
        (BATCH, {"next_offset": 10**12}, "1000000000000 bytes"),
        (BATCH, {"next_offset": MAX_BATCH_BYTES + 1}, "a batch has 1 to"),
        (BATCH, {"next_offset": 0}, "0 bytes of a log"),
        (BATCH, {"first_offset": 100, "next_offset": 50}, "-50 bytes of a log"),
        (BATCH, {"first_offset": -1}, "first_offset"),
        (BATCH, {"first_offset": 2**63, "next_offset": 2**63 + 9}, "first_offset"),
        (BATCH, {"next_offset": 5}, "cannot hold"),
        (BATCH, {"entries": [LINE] * (MAX_BATCH_LINES + 1)}, "entries"),
        (BATCH, {"entries": [LINE | {"log": "x" * (MAX_LINE_CHARS + 1)}]}, "log"),
        (BATCH, {"entries": [LINE | {"level": "LOUD"}]}, "level"),
        (BATCH, {"entries": [LINE | {"rank_id": 10**10}]}, "rank_id"),
        (BEAT, {"disk_free_bytes": -1}, "disk_free_bytes"),
        (BEAT, {"disk_free_bytes": float("nan")}, "disk_free_bytes"),
        (BEAT, {"type": "welcome"}, "welcome"),
        (BEAT, {"type": None}, "type"),
    ],
)
def test_what_breaks_the_bounds_is_refused_and_named(
    message: dict[str, Any], more: dict[str, Any], place: str
) -> None:
    with pytest.raises(BadMessage, match="sent what cannot be read") as refused:
        read_frame(json.dumps(message | more))
    assert place in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "null",
        "[]",
        "{",
        '{"type":"\\ud800"}',
        b"\xff\xfe",
        '{"type":"heartbeat","x":' + "[" * 30_000 + "]" * 30_000 + "}",
        '{"type":"heartbeat","x":' + '{"x":' * 10_000 + "1" + "}" * 10_001,
        '{"type":"heartbeat","disk_free_bytes":' + "9" * 5000 + "}",
    ],
)
def test_what_is_no_message_is_refused_without_being_shown(frame: str | bytes) -> None:
    with pytest.raises(BadMessage) as refused:
        read_frame(frame)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def test_how_long_a_message_may_be_is_known_before_it_is_parsed() -> None:
    padding = " " * SMALL_BYTES
    for message in (BEAT, LEAVING, REPORT):
        with pytest.raises(BadMessage, match="bytes as"):
            read_frame(json.dumps(message) + padding)
    for message in (HELLO, BATCH):
        assert read_frame(json.dumps(message) + padding).type == message["type"]
        with pytest.raises(BadMessage, match="bytes as"):
            read_frame(json.dumps(message) + " " * LARGE_BYTES[message["type"]])
        late = {key: message[key] for key in sorted(message)}
        with pytest.raises(BadMessage, match="bytes as ''"):
            read_frame(json.dumps(late) + padding)
    with pytest.raises(BadMessage, match="bytes as 'heartbeat'"):
        read_frame('{"type":"log_batch","x":"' + "x" * SMALL_BYTES + '","type":"heartbeat"}')


def test_the_largest_that_an_agent_says_is_read() -> None:
    text = "\u20ac" * (2 * MAX_TEXT_CHARS)
    hello = Hello(
        version="1",
        agent_id="a",
        pool="p",
        boot_id="b",
        slots=tuple(
            Slot(id=n, kind=SlotKind.CUDA, brand="NVIDIA H200 NVL", uuid="GPU-" + "0" * 36)
            for n in range(MAX_SLOTS)
        ),
        containers=tuple(
            ContainerReport(
                container_id=f"{n:036}",
                allocation_id=f"1.{n:036}.1",
                state=ContainerState.EXITED,
                exit=ExitRecord(exit_code=1, at=AT, message="the task could not be started " * 10),
            )
            for n in range(MAX_CONTAINERS)
        ),
        notes=(text,),
    )
    assert read_frame(hello.model_dump_json()) == hello
    line = "\x1b" * (MAX_BATCH_BYTES // MAX_BATCH_LINES - 20)
    entry = LogEntry(timestamp=AT, stdtype="stderr", log=line, level="WARNING", rank_id=10**9 - 1)
    batch = LogBatch(
        container_id="c",
        allocation_id="t.1",
        task_id="t",
        agent_id="a",
        first_offset=2**40,
        next_offset=2**40 + MAX_BATCH_BYTES,
        entries=(entry,) * MAX_BATCH_LINES,
    )
    assert read_frame(batch.model_dump_json()) == batch


def test_words_for_people_are_cut_and_escaped_instead() -> None:
    note = Heartbeat(notes=("a\x1b[2J\n\u202eb", "x" * 5000)).notes
    assert note[0] == "a\\x1b[2J \\u202eb"
    assert len(note[1]) == MAX_TEXT_CHARS
    assert note[1].endswith("...")
