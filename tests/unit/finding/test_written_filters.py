"""Filters as people write them: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.experiments.finding.columns import Table
from master.experiments.finding.filters import Node
from master.experiments.finding.language import MAX_CHARS, mentions, parse
from master.experiments.finding.literals import Reader
from master.experiments.finding.tokens import InvalidFilter
from master.experiments.finding.words import WORDS, source_of
from tests.fakes.printed_filters import name_of, printed
from tests.unit.finding.test_filters_in_sql import Draw
from windlass.base.errors import InvalidArgument

READER = Reader(username="ann", now=datetime(2026, 1, 10, tzinfo=UTC))
DOCS = Path(__file__).parents[3] / "docs" / "filters.md"


def read(text: str, table: Table = Table.EXPERIMENTS) -> str:
    """What it was understood as."""
    node = parse(text, table, READER)
    return printed(node, table) if node is not None else ""


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("", ""),
        ("  ", ""),
        ("resnet", "name ~ resnet"),
        ('"a b" resnet', 'name ~ "a b" and name ~ resnet'),
        ("state=RUNNING AND lr<1e-2", "state = RUNNING and hp.lr < 0.01"),
        ("state = STATE_running", "state = RUNNING"),
        ("state ~ pull", "state = PULLING"),
        ("state !~ pull", "not state = PULLING"),
        ("not in_it = 3", "not hp.in_it = 3"),
        ("a = 1 or b = 2 and c = 3", "hp.a = 1 or (hp.b = 2 and hp.c = 3)"),
        ("(a = 1 or b = 2) c = 3", "(hp.a = 1 or hp.b = 2) and hp.c = 3"),
        ("label in (x, 'y z')", 'label = x or label = "y z"'),
        ("Tags not in (x)", "not label = x"),
        ("user = me and name = 'me'", 'user = ann and name = "me"'),
        ("ended = none or best != none", "ended = none or best != none"),
        ("started > 2d", "started > 2026-01-08T00:00:00+00:00"),
        ("started < 2026-01-31T12:00+01:00", "started < 2026-01-31T11:00:00+00:00"),
        ("duration >= 1h30m", "duration >= 5400"),
        ("startTime = none", "started = none"),
        ("metric.validation.loss <= .3", "metric.validation.loss.last <= 0.3"),
        ("validation.loss.min < 1", "metric.validation.loss.min < 1"),
        ("metric.own.a.b.max < 1", "metric.own.a.b.max < 1"),
        ('hp.opt = adam or hp.opt = "1"', 'hp.opt = adam or hp.opt = "1"'),
        ("hp.flag = TRUE", "hp.flag = true"),
        ('"hp.a b" = 1', '"hp.a b" = 1'),
        (r'name ~ "say \"hi\" \\"', r'name ~ "say \"hi\" \\"'),
        ("archived = true", "archived = true"),
    ],
)
def test_what_a_filter_means(text: str, meaning: str) -> None:
    assert read(text) == meaning


def test_runs_have_words_of_their_own() -> None:
    assert read("resnet experiment = 7", Table.RUNS) == "name ~ resnet and experiment = 7"
    assert read("metadata.site = east", Table.RUNS) == "metadata.site = east"
    with pytest.raises(InvalidFilter, match="only runs have metadata"):
        read("metadata.site = east")


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("stat = RUNNING", (0, 4), "did you mean state"),
        ("state = RUNING", (8, 14), "did you mean RUNNING"),
        ("state = foo", (8, 11), "use one of QUEUED, PULLING"),
        ("state ~ foo", (8, 11), "no state has"),
        ("state < RUNNING", (6, 7), "use one of = != ~ !~"),
        ("state RUNNING", (6, 13), "expected = != < <= > >= ~ !~ or in after state"),
        ("trials ~ 3", (7, 8), "which is a number"),
        ("trials = many", (9, 13), "is no number"),
        ("trials = 1e999", (9, 14), "is no number"),
        ("archived = 1", (11, 12), "neither true nor false"),
        ("started > soon", (10, 14), "or an age such as 2d"),
        ("started > -2d", (10, 13), "is negative"),
        ("started > 99999999d", (10, 19), "too long ago"),
        ("a < true", (4, 8), "have no order"),
        ("a < none", (2, 3), "none goes with = and != only"),
        ("a <", (3, 3), "expected a value after <"),
        ("a = (", (4, 5), "expected a value"),
        ("(a = 1", (0, 1), "never closed"),
        ("a = 1)", (5, 6), "closes nothing"),
        ("a = 1 and", (9, 9), "the filter ends here"),
        ("and a = 1", (0, 3), "before and"),
        ("a in (1 2)", (8, 9), "expected , or )"),
        ('name = "abc', (7, 11), "no closing"),
        ("a ! b", (2, 3), "write != or !~"),
        ("metric.loss < 1", (0, 11), "is no metric"),
        ("hp. = 1", (0, 3), "expected hp.<name>"),
        ('"" = 1', (0, 2), "a name has 1 to"),
        ("not " * 40 + "a = 1", (128, 131), "more than 32"),
        ("x " * 201, (400, 401), "more than 200 conditions"),
        ('state ~ "" ' * 200, (143, 148), "more than 200 conditions"),
        ("a\0", (1, 2), "NUL"),
        ("x" * (MAX_CHARS + 1), (MAX_CHARS, MAX_CHARS + 1), "at most"),
    ],
)
def test_what_is_wrong_and_where(text: str, place: tuple[int, int], problem: str) -> None:
    with pytest.raises(InvalidFilter) as refused:
        parse(text, Table.EXPERIMENTS, READER)
    assert problem in refused.value.problem
    assert (refused.value.start, refused.value.end) == place
    assert refused.value.message.startswith(f"filter: at character {place[0] + 1}: ")


@given(st.text(st.sampled_from("ab= !<>~()\"'\\,.-1e") | st.characters(), max_size=40))
def test_any_text_is_read_or_refused_at_a_place_in_it(text: str) -> None:
    for table in Table:
        found = _parsed(text, table)
        if isinstance(found, InvalidFilter):
            assert 0 <= found.start <= found.end <= len(text)
        elif found is not None:
            assert parse(printed(found, table), table, READER) == found


def _parsed(text: str, table: Table) -> Node | InvalidFilter | None:
    try:
        return parse(text, table, READER)
    except InvalidFilter as refused:
        return refused


@given(st.integers(0, 2**32).map(Draw), st.sampled_from(Table))
def test_what_is_printed_is_read_as_the_same(draw: Draw, table: Table) -> None:
    node = draw.written(table)
    assert parse(printed(node, table), table, READER) == node


def test_each_word_is_a_column_of_its_own() -> None:
    for table, words in WORDS.items():
        assert len({word.column for word in words.values()}) == len(words)
        for word in words:
            assert name_of(table, source_of(table, word)) == word


def test_whether_a_filter_is_about_a_column() -> None:
    node = parse("a = 1 or not (b = 2 and archived = true)", Table.RUNS, READER)
    assert mentions(node, "archived")
    assert not mentions(node, "state")
    assert not mentions(None, "state")


def test_a_word_that_is_none_is_a_hyperparameter_unless_it_is_nearly_one() -> None:
    assert read("batch_size = 8") == "hp.batch_size = 8"
    for word in WORDS[Table.EXPERIMENTS]:
        if len(word) > 4:
            with suppress(InvalidArgument):
                assert read(f"{word[:-1]} = x") == f"hp.{word[:-1]} = x"
                pytest.fail(f"{word[:-1]} is nearly {word}")


def test_the_words_are_documented() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    for table, words in WORDS.items():
        for name, word in words.items():
            row = f"| `{name}` | {word.meaning} |"
            assert row in rows, f"docs/filters.md has no row for {name} of {table}: {row}"
