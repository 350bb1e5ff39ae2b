"""Output through the supervisor's framing and back: no line is lost, doubled or reordered, however it was chunked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.agent.containers.log_lines import parse_record, read_lines
from agent_bootstrap.bounds import MAX_BATCH_LINES
from agent_bootstrap.supervisor.output import MAX_LINE_BYTES, LineSplitter

chunks = st.lists(st.binary(max_size=60) | st.sampled_from([b"\n", b"\r", b"\r\n", b"a\r", b"\nb"]))


def texts(framed: bytes) -> list[bytes]:
    return [record.split(b" ", 2)[2] for record in framed.split(b"\n")[:-1]]


@given(chunks)
def test_lines_do_not_depend_on_how_the_stream_was_cut(pieces: list[bytes]) -> None:
    splitter = LineSplitter(b"o")
    framed = b"".join([splitter.feed(piece, 7) for piece in pieces if piece]) + splitter.end(7)
    expected = re.split(rb"\r\n|\r|\n", b"".join(pieces))
    if not expected[-1]:
        expected.pop()
    assert texts(framed) == expected


def test_a_progress_bar_is_seen_before_its_next_update() -> None:
    assert texts(LineSplitter(b"o").feed(b"50%\r", 1)) == [b"50%"]


def test_a_line_of_100_mb_is_cut_and_held_memory_is_bounded() -> None:
    splitter, chunk, held = LineSplitter(b"e"), b"x" * 65_536, 0
    for _ in range(1600):
        framed = splitter.feed(chunk, 1)
        pieces = texts(framed)
        assert {len(piece) for piece in pieces} == {MAX_LINE_BYTES}
        held += len(chunk) - sum(map(len, pieces))
        assert held <= MAX_LINE_BYTES
    assert texts(splitter.end(1)) == [b"x" * held]


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=30)))
def test_a_file_is_read_back_in_batches_without_loss(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("log") / "output.log"
    splitter = LineSplitter(b"o")
    path.write_bytes(splitter.feed("".join(f"x{line}\n" for line in lines).encode() or b"", 5))
    got: list[str] = []
    offset = 0
    while (batch := read_lines(path, offset, complete=False)).entries:
        got += [entry.log for entry in batch.entries]
        offset = batch.next_offset
    assert got == [f"x{line}" for line in lines]
    assert offset == path.stat().st_size


def test_batches_hold_a_thousand_lines_and_wait_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"1 o line\n" * 2500 + b"1 o unfinis")
    sizes, offset = [], 0
    while (batch := read_lines(path, offset, complete=False)).entries:
        sizes.append(len(batch.entries))
        offset = batch.next_offset
    assert sizes == [MAX_BATCH_LINES, MAX_BATCH_LINES, 500]
    assert read_lines(path, offset, complete=False).next_offset == offset
    assert read_lines(path, offset, complete=True).next_offset == path.stat().st_size


@pytest.mark.parametrize(
    ("raw", "rank", "level", "text"),
    [
        (b"plain", None, None, "plain"),
        (b"[rank=3] INFO: hello", 3, "INFO", "hello"),
        (b" [rank=0] x", 0, None, "x"),
        (b"ERROR: boom", None, "ERROR", "boom"),
        (b"ERRORS: no level", None, None, "ERRORS: no level"),
        (b"[rank=x] no", None, None, "[rank=x] no"),
        (b"info: lower case is text", None, None, "info: lower case is text"),
        (b"not \xff utf-8", None, None, "not \ufffd utf-8"),
        (b"", None, None, ""),
    ],
)
def test_prefixes_become_fields(raw: bytes, rank: int | None, level: str | None, text: str) -> None:
    entry = parse_record(b"1700000000000001 e " + raw)
    assert entry is not None
    assert (entry.rank_id, entry.level, entry.log) == (rank, level, text)
    assert (entry.stdtype, entry.timestamp.microsecond) == ("stderr", 1)


@pytest.mark.parametrize("torn", [b"", b"17", b"17 o", b"x o text", b"17 z text"])
def test_torn_records_are_skipped(torn: bytes) -> None:
    assert parse_record(torn) is None


def test_what_was_given_back_to_the_disk_is_skipped(tmp_path: Path) -> None:
    """A master that was restored from a backup asks for it."""
    path = tmp_path / "output.log"
    path.write_bytes(bytes(300_000) + b"5 o next\n")
    first = read_lines(path, 0, complete=False)
    assert (first.entries, first.next_offset) == ((), 256 * 1024)
    second = read_lines(path, first.next_offset, complete=False)
    assert (second.entries, second.next_offset) == ((), 300_000)
    assert [x.log for x in read_lines(path, 300_000, complete=False).entries] == ["next"]
