"""What a subscription matches, and what its client is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.updates.ranges import IdRanges, parse_ranges, ranges_of
from master.core.updates.subscription import Features, Filter, ShownRow, at_sync, hidden, news
from master.core.visibility import EVERYTHING, Visibility
from tests.examples import examples
from windlass.base.errors import InvalidArgument

IDS = st.sets(st.integers(1, 30))


@given(known=IDS, others=IDS)
@settings(max_examples=examples(200))
def test_ranges_are_sets(known: set[int], others: set[int]) -> None:
    ranges = ranges_of(known)
    assert parse_ranges(str(ranges), field="known") == ranges
    assert {id_ for id_ in range(32) if id_ in ranges} == known
    assert ranges.minus(others) == ranges_of(known - others)


def test_ranges_are_never_written_out() -> None:
    everything = parse_ranges("1-9000000000000000000", field="known")
    assert str(everything.minus([7])) == "1-6,8-9000000000000000000"
    assert str(IdRanges()) == ""


@pytest.mark.parametrize(
    "text",
    ["0", "0-4", "-1", "3-2", "4,4", "4,2", "1-3,3", "a", "1-", "1,", ",", " 1", "1" * 20, "٣"],
)
def test_a_malformed_range_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"known\.models: ") as refused:
        parse_ranges(text, field="known.models")
    assert '"1-4,7"' in refused.value.message


def test_one_feature_is_enough_and_none_is_nothing() -> None:
    row = Features(id=3, workspace_id=2, user_id=5, model_id=8)
    assert Filter(frozenset({("workspace", 9), ("user", 5)})).matches(row)
    assert Filter(frozenset({("model", 8)})).matches(row)
    assert not Filter(frozenset({("workspace", 3), ("id", 2)})).matches(row)
    assert not Filter().matches(row)


PRESENT = st.dictionaries(st.integers(1, 12), st.integers(1, 50)).map(
    lambda rows: {id_: ShownRow(seq, 1 + id_ % 3) for id_, seq in rows.items()}
)


@given(known=st.sets(st.integers(1, 12)), since=st.integers(0, 50), present=PRESENT)
@settings(max_examples=examples(200))
def test_a_sync_makes_what_is_known_what_is_present(
    known: set[int], since: int, present: dict[int, ShownRow]
) -> None:
    told = at_sync(ranges_of(known), since, present)
    gone = {id_ for id_ in range(13) if id_ in told.deleted}
    assert (known - gone) | set(told.changed) == set(present)
    assert not gone & set(present)
    stale = set(present) - set(told.changed)
    assert all(present[id_].seq <= since and id_ in known for id_ in stale)
    seqs = [present[id_].seq for id_ in told.changed]
    assert seqs == sorted(seqs)


@given(told=PRESENT, present=PRESENT)
@settings(max_examples=examples(100))
def test_news_are_what_is_new_or_newer(
    told: dict[int, ShownRow], present: dict[int, ShownRow]
) -> None:
    new = news(told, present)
    assert {id_ for id_ in present if id_ not in told} <= set(new) <= set(present)
    assert all(present[id_].seq > told[id_].seq for id_ in new if id_ in told)


def test_what_may_not_be_seen_any_more_is_hidden() -> None:
    told = {1: ShownRow(5, 1), 2: ShownRow(6, 2)}
    assert hidden(told, EVERYTHING) == []
    assert hidden(told, Visibility(workspaces=frozenset({2}))) == [1]
    assert hidden(told, Visibility(workspaces=frozenset())) == [1, 2]
